// The dialog in which whatever has a name gets another one.
import { useSignal } from "@preact/signals";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { Button } from "./basics";
import { Dialog } from "./dialog";
import { TextField } from "./fields";
import { FailureNotice } from "./states";

interface Props {
  /** What it is, as in "Rename the …". */
  what: string;
  before: string;
  rename: (name: string) => Promise<unknown>;
  onClose: () => void;
  onDone: () => void;
}

export function RenameDialog({ what, before, rename, onClose, onDone }: Props) {
  const name = useSignal(before);
  const missing = useSignal(false);
  const action = useAction();
  const submit = () => action.run(async () => {
    missing.value = name.value.trim() === "";
    if (!missing.value) {
      await rename(name.value.trim());
      announce("Renamed");
      onDone();
    }
  });
  return (
    <Dialog title={`Rename the ${what}`} onClose={onClose}>
      <form class="stack" noValidate onSubmit={(event) => { event.preventDefault(); void submit(); }}>
        <TextField
          label="Name" autoComplete="off" maxLength={100} required value={name.value}
          problem={missing.value ? "Give it a name." : undefined} onValue={(value) => { name.value = value; }}
        />
        {action.failure.value === undefined ? null : <FailureNotice what="It was not renamed." failure={action.failure.value} />}
        <div class="dialog-actions">
          <Button type="submit" look="primary" busy={action.busy.value}>Rename</Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}
