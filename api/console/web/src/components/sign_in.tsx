import { useSignal } from "@preact/signals";
import { failureOf, isCode, sentence, type Failure } from "../api/failure";
import { retryDelay } from "../lib/retry";
import { loginToken } from "../lib/text";
import { useClock } from "../state/clock";
import { current, dismissSheet, leave, sheet, signIn, state } from "../state/session";
import { useAction } from "../state/action";
import { Button } from "./basics";
import { Dialog } from "./dialog";
import { TextField } from "./fields";
import { Notice } from "./states";

function Refusal({ failure, until }: { failure: Failure; until: number | undefined }) {
  const now = useClock(250);
  const seconds = until === undefined ? 0 : Math.ceil((until - now.value) / 1000);
  const text = isCode(failure, "invalid_login") ? "That did not sign you in. Check the mail address and the password, or ask for a new link." : sentence(failure);
  return (
    <div role="alert">
      <Notice look="bad"><p>{text}{seconds > 0 ? ` Try again in ${seconds} s.` : ""}</p></Notice>
    </div>
  );
}

/** Mail and password, or a link that an operator gave. */
export function SignInForm({ email: known = "" }: { email?: string }) {
  const email = useSignal(known);
  const password = useSignal("");
  const link = useSignal("");
  const linkProblem = useSignal<string | undefined>(undefined);
  const failure = useSignal<Failure | undefined>(undefined);
  const until = useSignal<number | undefined>(undefined);
  const action = useAction();

  const send = (with_: Parameters<typeof signIn>[0]) => action.run(async () => {
    failure.value = undefined;
    try {
      await signIn(with_);
    } catch (thrown) {
      const refused = failureOf(thrown);
      failure.value = refused;
      const limited = refused.kind === "refused" && refused.status === 429;
      until.value = limited ? Date.now() + (retryDelay(refused, 0) ?? 0) * 1000 : undefined;
      password.value = "";
    }
  });
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
      {failure.value === undefined ? null : <Refusal failure={failure.value} until={until.value} />}
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

export function SignInPage() {
  const now = state.value;
  return (
    <main class="sign-in" id="main">
      <div class="sign-in-card">
        <p class="brand"><Logo /> Audio console</p>
        <h1 tabIndex={-1}>Sign in</h1>
        {now.name === "out" && now.failure !== undefined ? (
          <div role="alert">
            <Notice look="bad">
              <p>{isCode(now.failure, "invalid_login")
                ? "This sign-in link was used before, or is older than ten minutes. Ask your operator for a new one."
                : sentence(now.failure)}</p>
            </Notice>
          </div>
        ) : null}
        <SignInForm />
        <p class="hint">
          No password yet? Your operator makes a sign-in link: <code>audio-api admin user login-link --user …</code>
        </p>
      </div>
    </main>
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
