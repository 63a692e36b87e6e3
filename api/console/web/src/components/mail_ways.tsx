// Signing in, or up, by a link that comes by mail, or by an issuer's word.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { mail } from "../api/calls";
import type { SignInWays } from "../api/types";
import { useAction } from "../state/action";
import { announce } from "../state/announce";
import { issuerOutcome, mailLink } from "../state/mail_link";
import { current, sheet } from "../state/session";
import { goToIssuer, learnWays, ways } from "../state/ways";
import { Button } from "./basics";
import { TextField } from "./fields";
import { FailureNotice, Notice } from "./states";

function AskForLink({ label, known, hint, send, done }: { label: string; known: string; hint: string; send: string; done: string }) {
  const email = useSignal(known);
  const sent = useSignal(false);
  const action = useAction();
  const ask = () => action.run(async () => {
    sent.value = false;
    await mail.link(email.value.trim());
    sent.value = true;
    announce("A link is on its way");
  });
  const failure = action.failure.value;
  const ruled = failure?.kind === "refused" && failure.param === "email";
  return (
    <form class="stack" onSubmit={(event) => { event.preventDefault(); void ask(); }}>
      <TextField
        label={label} type="email" autoComplete="username" required value={email.value} hint={hint}
        problem={ruled ? failure.message : undefined} onValue={(value) => { email.value = value; }}
      />
      {failure === undefined || ruled ? null : <FailureNotice what="No link was sent." failure={failure} />}
      {sent.value ? <Notice look="good"><p>{done}</p></Notice> : null}
      <Button type="submit" busy={action.busy.value}>{send}</Button>
    </form>
  );
}

function IssuerButton() {
  const action = useAction();
  const begin = () => action.run(() => goToIssuer(sheet.value === "confirm" ? "step_up" : "sign_in"));
  const failure = action.failure.value;
  return (
    <>
      {failure === undefined ? null : <FailureNotice what="Your organization could not be asked." failure={failure} />}
      <Button busy={action.busy.value} onClick={() => void begin()}>Sign in with your organization</Button>
    </>
  );
}

/** How it ended that the browser was sent to an issuer: on the sign-in page, else over the page of whoever is signed in. */
export function IssuerOutcome() {
  const outcome = issuerOutcome.value;
  if (outcome === undefined) {
    return null;
  }
  const text = outcome === "not-shown" ? "Your organization did not say when you signed in. Confirm with a password, a passkey or a link."
    : current.value !== undefined ? "That did not work with your organization; your operator can tell why."
    : "That did not sign you in. Perhaps there is no account for you here; your operator can tell.";
  return <div role="alert"><Notice look="bad"><p>{text}</p></Notice></div>;
}

/** Beside the form for mail and password; nothing where the service has no other ways. */
export function MailWays({ known = "", signUp = false }: { known?: string; signUp?: boolean }) {
  useEffect(() => {
    void learnWays();
  }, []);
  const offered = ways.value;
  if (offered === undefined) {
    return null;
  }
  return (
    <>
      {current.value === undefined ? <IssuerOutcome /> : null}
      {offered.oidc ? <IssuerButton /> : null}
      {offered.mail ? <MailForms known={known} signUp={signUp} offered={offered} /> : null}
    </>
  );
}

function MailForms({ known, signUp, offered }: { known: string; signUp: boolean; offered: SignInWays }) {
  return (
    <>
      {mailLink.value === undefined ? null : <Notice><p>Sign in to confirm your new mail address.</p></Notice>}
      <details class="more">
        <summary>Get a link by mail</summary>
        <AskForLink
          label="Address for the link" known={known} hint="It signs you in once, within ten minutes." send="Send a sign-in link"
          done="If this address has an account, a link is on its way. It works for ten minutes."
        />
      </details>
      {!signUp || offered.sign_up === "closed" ? null : (
        <details class="more">
          <summary>Create an account</summary>
          <AskForLink
            label="Address of the new account" known={known} send="Send a link"
            hint={offered.sign_up === "open" ? "Opening the link that we send makes the account." : "For those who were invited."}
            done={offered.sign_up === "open"
              ? "A link is on its way. It works for ten minutes, and makes the account when you open it."
              : "If this address was invited, a link is on its way. It works for ten minutes."}
          />
        </details>
      )}
    </>
  );
}
