// What an address may bring along behind its #: taken out of it at once, kept in this page's memory
// alone.
import { signal } from "@preact/signals";
import { mailToken } from "../lib/text";

/** The token of the link that shows that a new mail address is read, until it is used. */
export const mailLink = signal<string | undefined>(undefined);
/** The browser came back from an issuer, and nobody was signed in. */
export const issuerFailed = signal(false);

function take(): void {
  const token = mailToken(window.location.hash);
  const failed = window.location.hash === "#sign-in=failed";
  if (token !== undefined || failed) {
    mailLink.value = token ?? mailLink.value;
    issuerFailed.value = failed;
    window.history.replaceState(null, "", window.location.pathname + window.location.search);
  }
}

take();
window.addEventListener("hashchange", take);
