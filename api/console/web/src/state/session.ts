// Who is signed in, and what happens when that ends.
import { computed, signal } from "@preact/signals";
import { passkeys, session as calls } from "../api/calls";
import { onOtherAccount, onUnauthorized, showAccount } from "../api/client";
import { type Failure, failureOf, isCode } from "../api/failure";
import type { OpenedSession, Session } from "../api/types";
import { root } from "../lib/path";
import { loginToken } from "../lib/text";
import { issuerOutcome } from "./mail_link";
import { useOne } from "./passkeys";
import { forgetTab, recall, remember } from "./storage";

type State =
  | { name: "starting" }
  | { name: "unreachable"; failure: Failure; attempt: number }  // `attempt`: how often it was asked again in vain.
  | { name: "link"; token: string; before?: Session }  // `before`: who is signed in as yet.
  | { name: "out" }
  | { name: "in"; session: Session };

export const state = signal<State>({ name: "starting" });
export const current = computed(() => (state.value.name === "in" ? state.value.session : undefined));

/** Why a sign-in sheet lies over the page: the session ended, or what was asked for needs a new one. */
export const sheet = signal<"expired" | "confirm" | undefined>(undefined);

/** Grows with every sign-in: whatever was refused before may be asked again. */
export const renewals = signal(0);

let confirmed: ((signedIn: boolean) => void) | undefined;

// Whoever it is finds his own console, and nothing of what this tab showed.
onOtherAccount(() => leave());

onUnauthorized(() => {
  if (state.peek().name === "in" && sheet.peek() === undefined) {
    sheet.value = "expired";
  }
});

/** The token in the address, which is taken out of it before anything else happens. */
function takeLoginToken(): string | undefined {
  const token = loginToken(window.location.hash);
  if (window.location.hash.startsWith("#login=")) {
    window.history.replaceState(null, "", window.location.pathname + window.location.search);
  }
  return token;
}

// A link pasted into this tab changes nothing but the fragment, which loads nothing by itself.
window.addEventListener("hashchange", () => {
  if (window.location.hash.startsWith("#login=")) {
    window.location.reload();
  }
});

/** Whether this tab is that account's from now on. If it still has somebody else's work, it starts anew without it. */
function claim(account: string): boolean {
  const before = current.peek()?.account ?? recall("tab", "user");
  // By the account, whose address may be changed elsewhere meanwhile.
  if (before !== undefined && before !== account) {
    leave();
    return false;
  }
  remember("tab", "user", account);
  showAccount(account);
  return true;
}

/** Shows the console to whoever has signed in. */
function enter(session: Session): void {
  if (claim(session.account)) {
    state.value = { name: "in", session };
  }
}

/** How many there were: what an earlier one hears is of no use any more, and takes no page away. */
let starts = 0;

/**
 * A link signs nobody in by being opened: programs that look into mails open it, too, and so does
 * whoever is sent the link of somebody else's account. The page asks first.
 */
export async function start(attempt = 0): Promise<void> {
  const token = takeLoginToken();
  const mine = ++starts;
  try {
    const session = await calls.current();
    if (mine !== starts) {
      return;
    }
    if (token === undefined) {
      enter(session);
    } else {
      state.value = { name: "link", token, before: session };
    }
  } catch (thrown) {
    if (mine !== starts) {
      return;
    }
    const failure = failureOf(thrown);
    const nobody = failure.kind === "refused" && failure.status === 401;
    state.value = token !== undefined ? { name: "link", token }
      : nobody ? { name: "out" } : { name: "unreachable", failure, attempt };
  }
}

/** Goes on as whoever was signed in before the link was opened. */
export function stay(): void {
  const now = state.peek();
  if (now.name === "link" && now.before !== undefined) {
    enter(now.before);
  }
}

/** Throws ApiFailure when the server refuses. */
export function signIn(with_: Parameters<typeof calls.signIn>[0]): Promise<void> {
  return enterBy(() => calls.signIn(with_));
}

/** Throws NotUsed besides. */
export function signInWithPasskey(): Promise<void> {
  return enterBy(async () => passkeys.signIn(await useOne()));
}

async function enterBy(open: () => Promise<OpenedSession>): Promise<void> {
  const { account } = await open();
  if (!claim(account)) {
    return;
  }
  issuerOutcome.value = undefined;  // It was another way in, and that is over.
  const failure = await refreshSession();
  // The sign-in has succeeded all the same: a page goes on with what it knew, and where there is none yet it is asked for again.
  if (failure !== undefined && current.peek() === undefined) {
    state.value = { name: "unreachable", failure, attempt: 0 };
    return;
  }
  closeSheet();
}

/** Whatever waited for a sign-in goes on. */
function closeSheet(): void {
  sheet.value = undefined;
  renewals.value += 1;
  settle(true);
}

// The way back in may have led through another tab, as a link in a mail does. If it is somebody else who is signed in now, the
// answer says so, and this tab starts anew.
async function lookAgain(): Promise<void> {
  if (sheet.peek() === "expired" && document.visibilityState === "visible" && (await refreshSession()) === undefined &&
      sheet.peek() === "expired") {
    closeSheet();
  }
}
document.addEventListener("visibilitychange", () => void lookAgain());
window.addEventListener("focus", () => void lookAgain());

/** Resolves at the next sign-in, or when `signal` says that nobody waits for it any more. */
export function signedInAgain(signal: AbortSignal): Promise<void> {
  const before = renewals.peek();
  return new Promise((resolve) => {
    const finish = () => {
      stop();
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const stop = renewals.subscribe((now) => {
      if (now !== before) {
        finish();
      }
    });
    signal.addEventListener("abort", finish);
  });
}

/** Resolves when the person has signed in again, with false when they would rather not. */
export function confirmIdentity(): Promise<boolean> {
  settle(false);  // Whoever asked before this, and was not answered: there is one sheet.
  sheet.value = "confirm";
  return new Promise((resolve) => {
    confirmed = resolve;
  });
}

/** Does it, after a fresh sign-in where the service wants one; undefined: the person would rather not. */
export async function withFreshSignIn<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (thrown) {
    if (!isCode(failureOf(thrown), "step_up_required")) {
      throw thrown;
    }
  }
  return (await confirmIdentity()) ? work() : undefined;
}

/** The same for what has no answer: whether it was done. */
export async function afterFreshSignIn(work: () => Promise<void>): Promise<boolean> {
  return (await withFreshSignIn(() => work().then(() => true))) === true;
}

export function dismissSheet(): void {
  sheet.value = undefined;
  settle(false);
}

function settle(signedIn: boolean): void {
  confirmed?.(signedIn);
  confirmed = undefined;
}

/** Starts anew with nothing of whoever was here, in this tab's memory or on the page. */
export function leave(): void {
  forgetTab();
  window.location.replace(root);
}

export async function signOut(): Promise<void> {
  await calls.end("current");
  leave();
}

/** Knows the session as it is by now; the answer is why it cannot be had, and then it stays as it was known. */
export async function refreshSession(): Promise<Failure | undefined> {
  try {
    state.value = { name: "in", session: await calls.current() };
    return undefined;
  } catch (thrown) {
    return failureOf(thrown);
  }
}
