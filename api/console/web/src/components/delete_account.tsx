import { useSignal } from "@preact/signals";
import { account, mail } from "../api/calls";
import { credits, sum, thousandths } from "../lib/decimal";
import { useAction } from "../state/action";
import { useLoader } from "../state/loader";
import { afterFreshSignIn, current, leave } from "../state/session";
import { Button, Card } from "./basics";
import { Dialog } from "./dialog";
import { CheckField, TextField } from "./fields";
import { FailureNotice, Loaded } from "./states";

export function DeleteAccount() {
  const asking = useSignal(false);
  return (
    <Card title="Delete the account">
      <p>Keys and sessions end at once. Texts, references and audio are erased; that they were made and what they cost stays on the books.</p>
      <div><Button look="danger" icon="bin" onClick={() => { asking.value = true; }}>Delete the account</Button></div>
      {asking.value ? <Ask onClose={() => { asking.value = false; }} /> : null}
    </Card>
  );
}

function Ask({ onClose }: { onClose: () => void }) {
  const loader = useLoader((signal) => account.show(signal));
  const typed = useSignal("");
  const forfeits = useSignal(false);
  const problem = useSignal<string | undefined>(undefined);
  const action = useAction();
  const own = current.value?.email ?? "";
  const end = (left: bigint) => action.run(async () => {
    problem.value = typed.value.trim().toLowerCase() !== own ? "That is not your mail address."
      : left > 0n && !forfeits.value ? "Say that the credits are lost, or use them first."
      : undefined;
    if (problem.value !== undefined) {
      return;
    }
    const gone = await afterFreshSignIn(() => mail.deleteAccount({ email: own, ...(forfeits.value ? { forfeit_credits: true } : {}) }));
    if (gone) {
      leave();
    }
  });
  return (
    <Dialog title="Delete the account?" onClose={onClose}>
      <p>This cannot be taken back. Whatever is running is canceled.</p>
      <Loaded loader={loader} what="Your credits" lines={2}>
        {({ credits: balance }) => {
          const left = sum([balance.available, balance.reserved]);
          return (
            <form class="stack" noValidate onSubmit={(event) => { event.preventDefault(); void end(thousandths(left)); }}>
              {thousandths(left) === 0n ? null : (
                <CheckField
                  label={`I lose ${credits(left)}`} hint="Nobody can use them afterwards, and nothing is paid back."
                  checked={forfeits.value} onChange={(on) => { forfeits.value = on; }}
                />
              )}
              <TextField
                label="Type your mail address" type="email" autoComplete="off" required hint={own} value={typed.value}
                problem={problem.value} onValue={(value) => { typed.value = value; }}
              />
              {action.failure.value === undefined ? null : <FailureNotice what="The account was not deleted." failure={action.failure.value} />}
              <div class="dialog-actions">
                <Button type="submit" look="danger" icon="bin" busy={action.busy.value}>Delete for good</Button>
                <Button onClick={onClose}>Keep it</Button>
              </div>
            </form>
          );
        }}
      </Loaded>
    </Dialog>
  );
}
