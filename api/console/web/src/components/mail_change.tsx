// Another mail address: asked for here, confirmed by the link that goes to it.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { mail } from "../api/calls";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { mailLink } from "../state/mail_link";
import { afterFreshSignIn, current, refreshSession } from "../state/session";
import { learnWays, ways } from "../state/ways";
import { Button, Card } from "./basics";
import { Dialog } from "./dialog";
import { TextField } from "./fields";
import { FailureNotice, Notice } from "./states";

export function MailChange() {
  const wanted = useSignal("");
  const sentTo = useSignal<string | undefined>(undefined);
  const action = useAction();
  useEffect(() => {
    void learnWays();
  }, []);
  if (ways.value === undefined) {
    return null;
  }
  if (!ways.value.mail) {
    return <ByOperator />;
  }
  const ask = () => action.run(async () => {
    sentTo.value = undefined;
    const address = wanted.value.trim();
    if (await afterFreshSignIn(() => mail.change(address))) {
      wanted.value = "";
      sentTo.value = address;
      announce("A link is on its way");
    }
  });
  const failure = action.failure.value;
  const ruled = failure?.kind === "refused" && failure.param === "email";
  return (
    <Card title="Mail address">
      <form class="stack narrow" onSubmit={(event) => { event.preventDefault(); void ask(); }}>
        <TextField
          label="New mail address" type="email" autoComplete="email" required value={wanted.value}
          hint="We send a link to it. Until you open it, everything stays as it is."
          problem={ruled ? failure.message : undefined} onValue={(value) => { wanted.value = value; }}
        />
        {failure === undefined || ruled ? null : <FailureNotice what="The address was not changed." failure={failure} />}
        {sentTo.value === undefined ? null : (
          <Notice look="good"><p>A link is on its way to <strong>{sentTo.value}</strong>. Open it in this browser, within an hour.</p></Notice>
        )}
        <div><Button type="submit" busy={action.busy.value}>Send the link</Button></div>
      </form>
    </Card>
  );
}

/** Without mail nobody could show that the new address is his; an operator may change it all the same. */
function ByOperator() {
  return (
    <Card title="Mail address">
      <p>It cannot be changed here: this service sends no mails, so no link can confirm another address. Your operator changes it:</p>
      <p><code>audio-api admin user email --user {current.value?.email} --email …</code></p>
    </Card>
  );
}

/** Over whatever page the link has led to. A button, because programs that look at mails open links, too. */
export function ConfirmMail() {
  const action = useAction();
  const token = mailLink.value;
  if (token === undefined) {
    return null;
  }
  const close = () => {
    mailLink.value = undefined;
  };
  const confirm = () => action.run(async () => {
    await mail.confirm(token);
    close();
    announce("The mail address was changed");
    await refreshSession();
  });
  return (
    <Dialog title="Confirm your new mail address" onClose={close}>
      <p>You are signed in as <strong>{current.value?.email}</strong>. From now on you sign in with the address that this link was sent to.</p>
      {action.failure.value === undefined ? null : <FailureNotice what="The address was not changed." failure={action.failure.value} />}
      <div class="dialog-actions">
        <Button look="primary" busy={action.busy.value} onClick={() => void confirm()}>Confirm</Button>
        <Button onClick={close}>Not now</Button>
      </div>
    </Dialog>
  );
}
