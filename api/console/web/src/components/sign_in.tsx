import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { failureOf, isCode, sentence, type Failure } from "../api/failure";
import { allowedAgain } from "../lib/retry";
import { loginToken } from "../lib/text";
import { waiting } from "../lib/time";
import { useSecondsUntil } from "../state/clock";
import { NotUsed, possible } from "../state/passkeys";
import { current, dismissSheet, leave, sheet, signIn, signInWithPasskey, state, stay } from "../state/session";
import { useAction } from "../state/action";
import { Button } from "./basics";
import { Dialog } from "./dialog";
import { TextField } from "./fields";
import { MailWays } from "./mail_ways";
import { Notice } from "./states";

const linkRefused = "This sign-in link was used before, or is older than ten minutes. Ask your operator for a new one.";

function Refusal({ failure, until, how }: { failure: Failure; until: number | undefined; how: "form" | "passkey" }) {
  const seconds = useSecondsUntil(until);
  const text = !isCode(failure, "invalid_login") ? sentence(failure)
    : how === "passkey" ? "That passkey did not sign you in: it is not known here, or no longer."
    : "That did not sign you in. Check the mail address and the password, or ask for a new link.";
  return (
    <div role="alert">
      <Notice look="bad"><p>{text}{seconds > 0 ? <span aria-live="off"> Try again in {waiting(seconds)}.</span> : null}</p></Notice>
    </div>
  );
}

/** Mail and password, a passkey, or a link that an operator gave. */
export function SignInForm({ email: known = "", signUp = false }: { email?: string; signUp?: boolean }) {
  const email = useSignal(known);
  const password = useSignal("");
  const link = useSignal("");
  const linkProblem = useSignal<string | undefined>(undefined);
  const failure = useSignal<Failure | undefined>(undefined);
  const until = useSignal<number | undefined>(undefined);
  const how = useSignal<"form" | "passkey">("form");
  const notUsed = useSignal<string | undefined>(undefined);
  const action = useAction();

  const run = (by: "form" | "passkey", open: () => Promise<void>) => action.run(async () => {
    failure.value = undefined;
    notUsed.value = undefined;
    how.value = by;
    try {
      await open();
    } catch (thrown) {
      if (thrown instanceof NotUsed) {
        notUsed.value = thrown.message;
        return;
      }
      const refused = failureOf(thrown);
      failure.value = refused;
      const limited = refused.kind === "refused" && refused.status === 429;
      until.value = limited ? allowedAgain(refused, Date.now()) : undefined;
      password.value = "";
    }
  });
  const send = (with_: Parameters<typeof signIn>[0]) => run("form", () => signIn(with_));
  const withPassword = (event: Event) => {
    event.preventDefault();
    void send({ email: email.value.trim(), password: password.value });
  };
  const withLink = (event: Event) => {
    event.preventDefault();
    const token = loginToken(link.value);
    linkProblem.value = token === undefined ? "That is no sign-in link: it has #login= in it." : undefined;
    if (token !== undefined) {
      link.value = "";
      void send({ login_token: token });
    }
  };
  return (
    <>
      {failure.value === undefined ? null : <Refusal failure={failure.value} until={until.value} how={how.value} />}
      {notUsed.value === undefined ? null : <div role="alert"><Notice><p>{notUsed.value}</p></Notice></div>}
      <form onSubmit={withPassword} class="stack">
        <TextField
          label="Mail address" type="email" autoComplete="username" required value={email.value}
          onValue={(value) => {
            email.value = value;
          }}
        />
        <TextField
          label="Password" type="password" autoComplete="current-password" required value={password.value}
          onValue={(value) => {
            password.value = value;
          }}
        />
        <Button type="submit" look="primary" busy={action.busy.value}>Sign in</Button>
      </form>
      {possible
        ? <Button icon="keys" busy={action.busy.value} onClick={() => void run("passkey", signInWithPasskey)}>Sign in with a passkey</Button>
        : null}
      <MailWays known={known} signUp={signUp} />
      <details class="more">
        <summary>Use a sign-in link</summary>
        <form onSubmit={withLink} class="stack">
          <TextField
            label="Sign-in link" type="password" autoComplete="off" required value={link.value} problem={linkProblem.value}
            hint="Your operator makes one. It works once, for ten minutes."
            onValue={(value) => {
              link.value = value;
            }}
          />
          <Button type="submit" busy={action.busy.value}>Sign in with the link</Button>
        </form>
      </details>
    </>
  );
}

function SignInCard({ children }: { children: ComponentChildren }) {
  return (
    <main class="sign-in" id="main">
      <div class="sign-in-card">
        <p class="brand"><Logo /> Audio console</p>
        <h1 tabIndex={-1}>Sign in</h1>
        {children}
      </div>
    </main>
  );
}

export function SignInPage() {
  return (
    <SignInCard>
      <SignInForm signUp />
      <p class="hint">
        No password yet? Your operator makes a sign-in link: <code>audio-api admin user login-link --user …</code>
      </p>
    </SignInCard>
  );
}

/** What a sign-in link opens. Whose account it is for only the service knows, and tells nobody before it is used. */
export function LinkPage() {
  const now = state.value;
  const action = useAction();
  if (now.name !== "link") {
    return null;
  }
  const { token, before } = now;
  const failure = action.failure.value;
  const over = isCode(failure, "invalid_login");
  return (
    <SignInCard>
      {failure === undefined ? null : (
        <div role="alert"><Notice look="bad"><p>{over ? linkRefused : sentence(failure)}</p></Notice></div>
      )}
      {before === undefined ? null : (
        <Notice look="warn">
          <p>You are signed in as <strong>{before.email}</strong>. Using the link ends that session; it may be for another account.</p>
        </Notice>
      )}
      {over ? null : (
        <>
          <p>This link was made to sign you in to the console. Use it only if you asked for it. It works once.</p>
          <Button look="primary" busy={action.busy.value} onClick={() => void action.run(() => signIn({ login_token: token }))}>
            Sign in with this link
          </Button>
        </>
      )}
      {before !== undefined ? <Button onClick={stay}>Stay signed in as {before.email}</Button>
        : over ? <SignInForm /> : null}
    </SignInCard>
  );
}

/** Over the page, which stays as it is: nothing that was typed is lost. */
export function SignInSheet() {
  const why = sheet.value;
  const email = current.value?.email ?? "";
  if (why === undefined) {
    return null;
  }
  const confirming = why === "confirm";
  return (
    <Dialog title={confirming ? "Confirm that it is you" : "Your session has ended"} onClose={confirming ? dismissSheet : undefined}>
      <p>
        {confirming
          ? "What you asked for needs a sign-in of the last ten minutes."
          : "Sign in again to go on. What you wrote is still here."}
      </p>
      <SignInForm email={email} />
      {confirming
        ? <Button look="quiet" onClick={dismissSheet}>Cancel</Button>
        : <Button look="quiet" onClick={leave}>Leave without signing in</Button>}
    </Dialog>
  );
}

export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d="M4 10v4M8 6.5v11M12 3v18M16 7.5v9M20 10v4" />
    </svg>
  );
}
