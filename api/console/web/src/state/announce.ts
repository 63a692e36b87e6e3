import { signal } from "@preact/signals";

/** What the live region says; every new text is read out once. */
export const announcement = signal("");

export function announce(text: string): void {
  // The same text again must be a change to be read out again.
  announcement.value = announcement.peek() === text ? `${text}\u00a0` : text;
}
