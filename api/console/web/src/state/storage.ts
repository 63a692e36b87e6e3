// What a tab or a browser remembers. Storage may be switched off or full; then nothing is remembered
// and everything else works. Never put here: keys, links, passwords.

type Kind = "tab" | "browser";
const prefix = "console.";

function area(kind: Kind): Storage | undefined {
  try {
    return kind === "tab" ? window.sessionStorage : window.localStorage;
  } catch {
    return undefined;
  }
}

export function recall(kind: Kind, name: string): unknown {
  try {
    const text = area(kind)?.getItem(prefix + name);
    return text === null || text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** This tab is being left: what is still going on in it tells the next one nothing of whoever was here. */
let left = false;

export function remember(kind: Kind, name: string, value: unknown): void {
  if (kind === "tab" && left) {
    return;
  }
  try {
    area(kind)?.setItem(prefix + name, JSON.stringify(value));
  } catch {
    // Full or forbidden: see above.
  }
}

export function forget(kind: Kind, name: string): void {
  area(kind)?.removeItem(prefix + name);
}

/** Whatever this tab knows about whoever was signed in; until the page is loaded anew it learns no more. */
export function forgetTab(): void {
  left = true;
  const tab = area("tab");
  for (const name of Object.keys(tab ?? {})) {
    if (name.startsWith(prefix)) {
      tab?.removeItem(name);
    }
  }
}
