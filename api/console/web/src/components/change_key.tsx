import { useSignal } from "@preact/signals";
import { keys } from "../api/calls";
import type { ApiKey } from "../api/types";
import { anHour, within } from "../lib/time";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { Button, Time } from "./basics";
import { Dialog } from "./dialog";
import { TextField } from "./fields";
import { FailureNotice, Notice } from "./states";

interface Props { shown: ApiKey; onClose: () => void; onDone: () => void }

export function RenameKey({ shown, onClose, onDone }: Props) {
  const name = useSignal(shown.name);
  const missing = useSignal(false);
  const action = useAction();
  const rename = () => action.run(async () => {
    missing.value = name.value.trim() === "";
    if (!missing.value) {
      await keys.rename(shown.id, name.value.trim());
      announce("Renamed");
      onDone();
    }
  });
  return (
    <Dialog title="Rename the key" onClose={onClose}>
      <form class="stack" noValidate onSubmit={(event) => { event.preventDefault(); void rename(); }}>
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

/** One that a program used just now is not deleted by a slip of the hand. */
export function DeleteKey({ shown, onClose, onDone }: Props) {
  const typed = useSignal("");
  const wrong = useSignal(false);
  const action = useAction();
  const inUse = within(shown.last_used_at, anHour, Date.now());
  const remove = () => action.run(async () => {
    wrong.value = inUse && typed.value.trim() !== shown.name;
    if (!wrong.value) {
      await keys.remove(shown.id);
      announce("The key was deleted");
      onDone();
    }
  });
  return (
    <Dialog title={`Delete “${shown.name}”?`} onClose={onClose}>
      <form class="stack" noValidate onSubmit={(event) => { event.preventDefault(); void remove(); }}>
        <p>Programs that use <code>{shown.prefix}…</code> are refused from then on. What they have started goes on. It cannot be undone.</p>
        {inUse && shown.last_used_at !== null ? (
          <>
            <Notice look="warn"><p><strong>In use:</strong> the last request with it was <Time at={shown.last_used_at} />.</p></Notice>
            <TextField
              label={`Type its name, ${shown.name}`} autoComplete="off" value={typed.value}
              problem={wrong.value ? "That is not its name." : undefined} onValue={(value) => { typed.value = value; }}
            />
          </>
        ) : null}
        {action.failure.value === undefined ? null : <FailureNotice what="It was not deleted." failure={action.failure.value} />}
        <div class="dialog-actions">
          <Button type="submit" look="danger" icon="bin" busy={action.busy.value}>Delete the key</Button>
          <Button onClick={onClose}>Keep it</Button>
        </div>
      </form>
    </Dialog>
  );
}
