// Single keys for whoever likes them. They never fire where somebody types, with a modifier, or under a
// dialog, and can be switched off (WCAG 2.2, 2.1.4).
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { recall, remember } from "./storage";

export const enabled = signal(recall("browser", "shortcuts") !== false);

export function enableShortcuts(on: boolean): void {
  enabled.value = on;
  remember("browser", "shortcuts", on);
}

/** The key that makes a shortcut of Enter, as keyboards here name it. */
export const modifier = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘" : "Ctrl";

export interface Shortcut { keys: string; does: string; act: () => void }

const active = new Set<readonly Shortcut[]>();
const prefixTime = 1500;
let prefix: { key: string; at: number } | undefined;

/** These keys act while the component is there. */
export function useShortcuts(shortcuts: readonly Shortcut[]): void {
  useEffect(() => {
    active.add(shortcuts);
    return () => {
      active.delete(shortcuts);
    };
  }, [shortcuts]);
}

export function startShortcuts(): void {
  document.addEventListener("keydown", onKey);
}

function onKey(event: KeyboardEvent): void {
  if (!enabled.peek() || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isBusy(event.target)) {
    prefix = undefined;
    return;
  }
  const alone = event.key;
  const held = prefix !== undefined && Date.now() - prefix.at < prefixTime ? `${prefix.key} ${alone}` : undefined;
  const found = find(held) ?? find(alone);
  prefix = found === undefined && startsSomething(alone) ? { key: alone, at: Date.now() } : undefined;
  if (found !== undefined) {
    event.preventDefault();
    found.act();
  }
}

function find(keys: string | undefined): Shortcut | undefined {
  // The newest first: a page's own key before the frame's.
  return [...active].reverse().flat().find((shortcut) => shortcut.keys === keys);
}

function startsSomething(key: string): boolean {
  return [...active].flat().some((shortcut) => shortcut.keys.startsWith(`${key} `));
}

function isBusy(target: EventTarget | null): boolean {
  if (document.querySelector("dialog[open]") !== null) {
    return true;
  }
  if (!(target instanceof HTMLElement)) {
    return false;
  }
  return target.isContentEditable || target.closest("input, textarea, select, audio") !== null;
}
