import { signal } from "@preact/signals";

/** What the live regions say; every new text is read out once. */
export const announcement = signal("");

/** What lay over the page may be gone with what is told: nothing outside a modal dialog is read out while it is open. */
const afterDialogs = 50;

export function announce(text: string): void {
  window.setTimeout(() => {
    // The same text again must be a change to be read out again.
    announcement.value = announcement.peek() === text ? `${text}\u00a0` : text;
  }, afterDialogs);
}
