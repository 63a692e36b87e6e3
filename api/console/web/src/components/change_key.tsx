import { useSignal } from "@preact/signals";
import { keys } from "../api/calls";
import type { ApiKey } from "../api/types";
import { anHour, within } from "../lib/time";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { withFreshSignIn } from "../state/session";
import { Button, Time } from "./basics";
import { Dialog } from "./dialog";
import { TextField } from "./fields";
import { RenameDialog } from "./rename";
import { LimitFields, useLimitDraft } from "./spend_limit";
import { FailureNotice, Notice } from "./states";

interface Props { shown: ApiKey; onClose: () => void; onDone: () => void }

export function RenameKey({ shown, onClose, onDone }: Props) {
  return <RenameDialog what="key" before={shown.name} rename={(name) => keys.rename(shown.id, name)} onClose={onClose} onDone={onDone} />;
}

export function LimitKey({ shown, onClose, onDone }: Props) {
  const draft = useLimitDraft(shown.spend_limit);
  const action = useAction();
  const change = () => action.run(async () => {
    const limit = draft.read();
    if (limit === undefined) {
      return;
    }
    const changed = await withFreshSignIn(() => keys.limit(shown.id, limit));
    if (changed !== undefined) {
      announce(limit === null ? "The limit was removed" : "The limit was set");
      onDone();
    }
  });
  return (
    <Dialog title={`Spend limit of “${shown.name}”`} onClose={onClose}>
      <form class="stack" noValidate onSubmit={(event) => { event.preventDefault(); void change(); }}>
        {shown.spend_limit === null
          ? <p>What the key creates from then on counts, nothing of before.</p>
          : <p>A new limit goes on counting where this one is. Without one nothing counts.</p>}
        <LimitFields draft={draft} />
        {action.failure.value === undefined ? null : <FailureNotice what="The limit was not changed." failure={action.failure.value} />}
        <div class="dialog-actions">
          <Button type="submit" look="primary" busy={action.busy.value}>Save</Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}

/** One that a program used just now is not deleted by a slip of the hand. */
export function DeleteKey({ shown, onClose, onDone }: Props) {
  const known = useSignal(shown);
  const typed = useSignal("");
  const wrong = useSignal(false);
  const action = useAction();
  const { last_used_at: used } = known.value;
  const inUse = within(used, anHour, Date.now());
  const remove = () => action.run(async () => {
    // It may have been used since the page has read the list.
    known.value = (await keys.list()).data.find((key) => key.id === shown.id) ?? shown;
    const named = typed.value.trim() === shown.name;
    wrong.value = inUse && !named;
    if (named || !within(known.value.last_used_at, anHour, Date.now())) {
      await keys.remove(shown.id);
      announce("The key was deleted");
      onDone();
    }
  });
  return (
    <Dialog title={`Delete “${shown.name}”?`} onClose={onClose}>
      <form class="stack" noValidate onSubmit={(event) => { event.preventDefault(); void remove(); }}>
        <p>Programs that use <code>{shown.prefix}…</code> are refused from then on. What they have started goes on. It cannot be undone.</p>
        {inUse && used !== null ? (
          <>
            <Notice look="warn"><p><strong>In use:</strong> the last request with it was <Time at={used} />.</p></Notice>
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
