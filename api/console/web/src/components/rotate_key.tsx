import { useSignal } from "@preact/signals";
import { keys } from "../api/calls";
import type { ApiKey, ApiKeyWithSecret } from "../api/types";
import { overlapHours, overlapMax } from "../lib/time";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { withFreshSignIn } from "../state/session";
import { Button, Time } from "./basics";
import { ShownOnce } from "./create_key";
import { Dialog } from "./dialog";
import { RangeField } from "./fields";
import { FailureNotice, Notice } from "./states";

/** Another secret for a key; the one that it has works on for as long as its programs need. */
export function RotateKey({ shown, onClose, onDone }: { shown: ApiKey; onClose: () => void; onDone: () => void }) {
  const made = useSignal<ApiKeyWithSecret | undefined>(undefined);
  return made.value === undefined
    ? <RotateForm shown={shown} onClose={onClose} onMade={(key) => { made.value = key; announce("The key has a new secret. It is shown once."); }} />
    : <ShownOnce made={made.value} onSaved={onDone} />;
}

function RotateForm({ shown, onClose, onMade }: { shown: ApiKey; onClose: () => void; onMade: (key: ApiKeyWithSecret) => void }) {
  const hours = useSignal("24");
  const wrong = useSignal(false);
  const action = useAction();
  const rotate = () => action.run(async () => {
    const overlap = overlapHours(hours.value);
    wrong.value = overlap === undefined;
    if (overlap === undefined) {
      return;
    }
    const key = await withFreshSignIn(() => keys.rotate(shown.id, overlap));
    if (key !== undefined) {
      onMade(key);
    }
  });
  return (
    <Dialog title={`A new secret for “${shown.name}”`} onClose={onClose}>
      <form class="stack" noValidate onSubmit={(event) => { event.preventDefault(); void rotate(); }}>
        <p>The new one works at once. The one that it has, <code>{shown.prefix}…</code>, works for as long as you say here, so that programs can be told one by one.</p>
        {shown.previous_key_expires_at === null ? null : (
          <Notice look="warn"><p>The one before that, which would work until <Time at={shown.previous_key_expires_at} />, ends now.</p></Notice>
        )}
        <RangeField
          label="Hours that both work" unit=" h" min={0} max={overlapMax} step={1} value={hours.value} onValue={(value) => { hours.value = value; }}
          problem={wrong.value ? `A whole number from 0 to ${overlapMax}; 0 if it may have leaked.` : undefined}
        />
        {action.failure.value === undefined ? null : <FailureNotice what="The key was not changed." failure={action.failure.value} />}
        <div class="dialog-actions">
          <Button type="submit" look="primary" icon="repeat" busy={action.busy.value}>Make a new secret</Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}
