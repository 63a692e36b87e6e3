import { useSignal } from "@preact/signals";
import { keys } from "../api/calls";
import type { ApiKeyWithSecret, NewApiKey, Scope } from "../api/types";
import { leavesOpen } from "../lib/retry";
import { absolute, aDay, rfc3339 } from "../lib/time";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { withFreshSignIn } from "../state/session";
import { Button, CopyButton } from "./basics";
import { Dialog } from "./dialog";
import { CheckField, SelectField, TextField } from "./fields";
import { LimitFields, useLimitDraft } from "./spend_limit";
import { FailureNotice, Notice } from "./states";

const lifetimes = [["", "Never"], ["7", "In 7 days"], ["30", "In 30 days"], ["90", "In 90 days"], ["365", "In a year"]] as const;
type Lifetime = (typeof lifetimes)[number][0];

/** Undefined: the person would rather not sign in again for it. */
export function makeKey(wanted: NewApiKey): Promise<ApiKeyWithSecret | undefined> {
  return withFreshSignIn(() => keys.create(wanted));
}

export function CreateKey({ onClose, onDone }: { onClose: () => void; onDone: () => void }) {
  const made = useSignal<ApiKeyWithSecret | undefined>(undefined);
  // A component of its own each: the secret is gone from the page with the second.
  return made.value === undefined
    ? <NewKeyForm onClose={onClose} onMade={(key) => { made.value = key; announce("The key was made. It is shown once."); }} />
    : <ShownOnce made={made.value} onSaved={onDone} />;
}

function NewKeyForm({ onClose, onMade }: { onClose: () => void; onMade: (key: ApiKeyWithSecret) => void }) {
  const name = useSignal("");
  const generate = useSignal(true);
  const manage = useSignal(false);
  const lifetime = useSignal<Lifetime>("");
  const limit = useLimitDraft(null);
  const missing = useSignal(false);
  const action = useAction();
  const create = () => action.run(async () => {
    const trimmed = name.value.trim();
    const spend = limit.read();
    missing.value = trimmed === "";
    if (missing.value || spend === undefined) {
      return;
    }
    const scopes: Scope[] = [...(generate.value ? ["generate" as const] : []), ...(manage.value ? ["manage" as const] : [])];
    const key = await makeKey({
      name: trimmed, scopes,
      ...(lifetime.value === "" ? {} : { expires_at: rfc3339(Date.now() + Number(lifetime.value) * aDay) }),
      ...(spend === null ? {} : { spend_limit: spend }),
    });
    if (key !== undefined) {
      onMade(key);
    }
  });
  return (
    // Whoever closed it while the answer is under way would never see the secret.
    <Dialog title="New API key" onClose={action.busy.value ? undefined : onClose}>
      <form class="stack" noValidate onSubmit={(event) => { event.preventDefault(); void create(); }}>
        <TextField
          label="Name" hint="What it is for, or where it is kept." autoComplete="off" maxLength={100} required
          value={name.value} problem={missing.value ? "Give it a name." : undefined} onValue={(value) => { name.value = value; }}
        />
        <fieldset>
          <legend>It may</legend>
          <p class="hint">Every key may read.</p>
          <CheckField label="generate" hint="Create, cancel and delete generations; spends credits." checked={generate.value} onChange={(on) => { generate.value = on; }} />
          <CheckField label="manage" hint="Make, change and delete keys. Needs a sign-in of the last ten minutes." checked={manage.value} onChange={(on) => { manage.value = on; }} />
        </fieldset>
        <SelectField label="Expires" value={lifetime.value} options={lifetimes} onValue={(value) => { lifetime.value = value; }} />
        <LimitFields draft={limit} />
        {action.failure.value === undefined ? null : <FailureNotice what={leavesOpen(action.failure.value) ? "The key may have been made: the list says so, and its secret is lost." : "The key was not made."} failure={action.failure.value} />}
        <div class="dialog-actions">
          <Button type="submit" look="primary" busy={action.busy.value}>Make the key</Button>
          <Button onClick={onClose} busy={action.busy.value}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}

/** The secret of a key that was made, or got a new one. */
export function ShownOnce({ made, onSaved }: { made: ApiKeyWithSecret; onSaved: () => void }) {
  return (
    <Dialog title={`Key “${made.name}”`}>
      <Notice look="warn"><p><strong>It is shown this once.</strong> Keep it where secrets are kept; whoever has it spends your credits.</p></Notice>
      {made.previous_key_expires_at === null ? null : <p>The secret before it works until {absolute(made.previous_key_expires_at)}.</p>}
      <pre class="code secret" tabIndex={0} role="region" aria-label="The key"><code>{made.key}</code></pre>
      <div class="dialog-actions">
        <CopyButton text={made.key} label="Copy the key" look="primary" />
        <Button onClick={onSaved}>I saved it</Button>
      </div>
    </Dialog>
  );
}
