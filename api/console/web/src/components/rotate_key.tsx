import { useSignal } from "@preact/signals";
import { keys } from "../api/calls";
import { failureOf } from "../api/failure";
import type { ApiKey, ApiKeyWithSecret } from "../api/types";
import { leavesOpen } from "../lib/retry";
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
export function RotateKey({ shown, onClose }: { shown: ApiKey; onClose: () => void }) {
  const made = useSignal<ApiKeyWithSecret | undefined>(undefined);
  return made.value === undefined
    ? <RotateForm shown={shown} onClose={onClose} onMade={(key) => { made.value = key; announce("The key has a new secret. It is shown once."); }} />
    : <ShownOnce made={made.value} onSaved={onClose} />;
}

function RotateForm({ shown, onClose, onMade }: { shown: ApiKey; onClose: () => void; onMade: (key: ApiKeyWithSecret) => void }) {
  const known = useSignal(shown);
  const hours = useSignal("24");
  const wrong = useSignal(false);
  const lost = useSignal(false);  // An answer was, and with it perhaps a secret.
  const action = useAction();
  const look = async () => {
    known.value = (await keys.list()).data.find((key) => key.id === shown.id) ?? known.value;
  };
  const rotate = () => action.run(async () => {
    const overlap = overlapHours(hours.value);
    wrong.value = overlap === undefined;
    if (overlap === undefined) {
      return;
    }
    // What is said of its secrets is true before another one takes their place.
    const { prefix } = known.value;
    await look();
    if (known.value.prefix !== prefix) {
      return;
    }
    try {
      const key = await withFreshSignIn(() => keys.rotate(shown.id, overlap));
      if (key !== undefined) {
        onMade(key);
      }
    } catch (thrown) {
      if (leavesOpen(failureOf(thrown))) {
        lost.value = true;
        await look().catch(failureOf);
      }
      throw thrown;
    }
  });
  const { prefix, previous_key_expires_at: previousUntil } = known.value;
  return (
    // Whoever closed it while the answer is under way would never see the secret.
    <Dialog title={`A new secret for “${shown.name}”`} onClose={action.busy.value ? undefined : onClose}>
      <form class="stack" noValidate onSubmit={(event) => { event.preventDefault(); void rotate(); }}>
        <p>The new one works at once. The one that it has, <code>{prefix}…</code>, works for as long as you say here, so that programs can be told one by one.</p>
        {previousUntil === null ? null : (
          <Notice look="warn">
            <p>
              The one before that, which would work until <Time at={previousUntil} />, ends now. If nothing has used <code>{prefix}…</code> yet,
              that ends instead, and the one before it works for as long as you say here.
            </p>
          </Notice>
        )}
        <RangeField
          label="Hours that both work" unit=" h" min={0} max={overlapMax} step={1} value={hours.value} onValue={(value) => { hours.value = value; }}
          problem={wrong.value ? `A whole number from 0 to ${overlapMax}; 0 if it may have leaked.` : undefined}
        />
        {action.failure.value === undefined ? null : (
          <FailureNotice what={lost.value ? "The key may have been changed." : "The key was not changed."} failure={action.failure.value} />
        )}
        {prefix === shown.prefix ? null : (
          <div role="alert">
            <Notice look="warn">
              <p>{lost.value ? "It was changed, and the answer with its new secret was lost: make one more." : "It was given another secret meanwhile."}</p>
            </Notice>
          </div>
        )}
        <div class="dialog-actions">
          <Button type="submit" look="primary" icon="repeat" busy={action.busy.value}>Make a new secret</Button>
          <Button onClick={onClose} busy={action.busy.value}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}
