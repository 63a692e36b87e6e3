// Which ways in the service offers besides a password and an operator's link.
import { signal } from "@preact/signals";
import { issuer, mail } from "../api/calls";
import { failureOf } from "../api/failure";
import type { SignInWays } from "../api/types";

/** Undefined until it is known, and where it cannot be had: then nothing more is offered. */
export const ways = signal<SignInWays | undefined>(undefined);

export async function learnWays(): Promise<void> {
  try {
    ways.value = await mail.ways();
  } catch (thrown) {
    failureOf(thrown);
  }
}

/** The browser leaves for the issuer. */
export async function goToIssuer(purpose: Parameters<typeof issuer.begin>[0]): Promise<void> {
  const { url } = await issuer.begin(purpose);
  window.location.assign(url);
}
