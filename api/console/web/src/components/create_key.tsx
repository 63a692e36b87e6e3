import { useSignal } from "@preact/signals";
import { keys } from "../api/calls";
import { failureOf, isCode } from "../api/failure";
import type { ApiKeyWithSecret, NewApiKey, Scope } from "../api/types";
import { aDay, rfc3339 } from "../lib/time";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { confirmIdentity } from "../state/session";
import { Button, CopyButton } from "./basics";
import { Dialog } from "./dialog";
import { CheckField, SelectField, TextField } from "./fields";
import { FailureNotice, Notice } from "./states";

const lifetimes = [["", "Never"], ["7", "In 7 days"], ["30", "In 30 days"], ["90", "In 90 days"], ["365", "In a year"]] as const;
type Lifetime = (typeof lifetimes)[number][0];

/** Makes it, after a fresh sign-in where the service wants one; undefined: the person would rather not. */
export async function makeKey(wanted: NewApiKey): Promise<ApiKeyWithSecret | undefined> {
  try {
    return await keys.create(wanted);
  } catch (thrown) {
    if (!isCode(failureOf(thrown), "step_up_required")) {
      throw thrown;
    }
  }
  return (await confirmIdentity()) ? keys.create(wanted) : undefined;
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
  const missing = useSignal(false);
  const action = useAction();
  const create = () => action.run(async () => {
    const trimmed = name.value.trim();
    missing.value = trimmed === "";
    if (missing.value) {
      return;
    }
    const scopes: Scope[] = [...(generate.value ? ["generate" as const] : []), ...(manage.value ? ["manage" as const] : [])];
    const key = await makeKey({
      name: trimmed, scopes,
      ...(lifetime.value === "" ? {} : { expires_at: rfc3339(Date.now() + Number(lifetime.value) * aDay) }),
    });
    if (key !== undefined) {
      onMade(key);
    }
  });
  return (
    <Dialog title="New API key" onClose={onClose}>
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
        {action.failure.value === undefined ? null : <FailureNotice what="The key was not made." failure={action.failure.value} />}
        <div class="dialog-actions">
          <Button type="submit" look="primary" busy={action.busy.value}>Make the key</Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}

function ShownOnce({ made, onSaved }: { made: ApiKeyWithSecret; onSaved: () => void }) {
  return (
    <Dialog title={`Key “${made.name}”`}>
      <Notice look="warn"><p><strong>It is shown this once.</strong> Keep it where secrets are kept; whoever has it spends your credits.</p></Notice>
      <pre class="code secret" tabIndex={0} role="region" aria-label="The key"><code>{made.key}</code></pre>
      <div class="dialog-actions">
        <CopyButton text={made.key} label="Copy the key" look="primary" />
        <Button onClick={onSaved}>I saved it</Button>
      </div>
    </Dialog>
  );
}
