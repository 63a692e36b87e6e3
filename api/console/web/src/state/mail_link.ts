// What an address may bring along behind its #: taken out of it at once, kept in this page's memory
// alone.
import { signal } from "@preact/signals";
import { mailToken } from "../lib/text";

/** The token of the link that shows that a new mail address is read, until it is used. */
export const mailLink = signal<string | undefined>(undefined);
/** The browser came back from an issuer: nobody was signed in, or it was not said when he signed in there. */
export const issuerOutcome = signal<"failed" | "not-shown" | undefined>(undefined);
const outcomes = { "#sign-in=failed": "failed", "#sign-in=not-shown": "not-shown" } as const;

function take(): void {
  const token = mailToken(window.location.hash);
  const outcome = outcomes[window.location.hash as keyof typeof outcomes];
  if (token !== undefined || outcome !== undefined) {
    mailLink.value = token ?? mailLink.value;
    issuerOutcome.value = outcome;
    window.history.replaceState(null, "", window.location.pathname + window.location.search);
  }
}

take();
window.addEventListener("hashchange", take);
