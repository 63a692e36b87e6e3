// The frame around every page: navigation, skip link, live region, the keys that work everywhere.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useMemo } from "preact/hooks";
import { pathOf, type Page } from "../lib/path";
import { navigate, page, path } from "../state/router";
import { current } from "../state/session";
import { enabled, modifier, type Shortcut, useShortcuts } from "../state/shortcuts";
import { IconButton } from "./basics";
import { Dialog } from "./dialog";
import { Icon, type IconName } from "./icons";
import { IssuerOutcome } from "./mail_ways";
import { Button } from "./basics";
import { Logo } from "./sign_in";

type Entry = { name: Exclude<Page["name"], "generation" | "missing" | "start">; text: string; icon: IconName };
const entries: readonly Entry[] = [
  { name: "overview", text: "Overview", icon: "overview" },
  { name: "playground", text: "Playground", icon: "playground" },
  { name: "history", text: "History", icon: "history" },
  { name: "keys", text: "API keys", icon: "keys" },
  { name: "usage", text: "Usage", icon: "usage" },
  { name: "billing", text: "Billing", icon: "billing" },
  { name: "reference", text: "API reference", icon: "reference" },
  { name: "settings", text: "Settings", icon: "settings" },
];
/** How many of them have a place in the bar of a phone; the others are under More. */
const inBar = 4;

function currentEntry(): Entry["name"] | undefined {
  const name = page.value.name;
  return name === "generation" ? "history" : entries.find((entry) => entry.name === name)?.name;
}

/** More is where somebody is on a phone when the bar has no place for that page. */
function isUnderMore(): boolean {
  return entries.findIndex((entry) => entry.name === currentEntry()) >= inBar;
}

function NavLink({ entry, onClick }: { entry: Entry; onClick?: () => void }) {
  return (
    <a href={pathOf({ name: entry.name })} aria-current={currentEntry() === entry.name ? "page" : undefined} onClick={onClick}>
      <Icon name={entry.icon} /><span>{entry.text}</span>
    </a>
  );
}

export function Shell({ children }: { children: ComponentChildren }) {
  const menu = useSignal(false);
  const help = useSignal(false);
  const shortcuts = useMemo<readonly Shortcut[]>(() => [
    { keys: "?", does: "Show this help", act: () => { help.value = true; } },
    { keys: "n", does: "New generation", act: () => navigate(pathOf({ name: "playground" })) },
    { keys: "/", does: "Filter the history", act: toFilters },
    { keys: "g o", does: "Go to the overview", act: () => navigate(pathOf({ name: "overview" })) },
    { keys: "g h", does: "Go to the history", act: () => navigate(pathOf({ name: "history" })) },
    { keys: "g k", does: "Go to the API keys", act: () => navigate(pathOf({ name: "keys" })) },
    { keys: "g u", does: "Go to usage", act: () => navigate(pathOf({ name: "usage" })) },
    { keys: "g b", does: "Go to billing", act: () => navigate(pathOf({ name: "billing" })) },
  ], []);
  useShortcuts(shortcuts);
  useFocusOnNavigation();
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={focusMain}>Skip to the content</a>
      <header class="side">
        <p class="brand"><Logo /> Audio console</p>
        <nav aria-label="Console">
          {entries.map((entry, index) => (
            <div key={entry.name} class={index < inBar ? "" : "beyond"}><NavLink entry={entry} /></div>
          ))}
          <button type="button" class="nav-more" aria-haspopup="dialog" aria-current={isUnderMore() ? "true" : undefined} onClick={() => { menu.value = true; }}>
            <Icon name="more" /><span>More</span>
          </button>
        </nav>
        <div class="side-foot">
          <span class="who" title={current.value?.email}>{current.value?.email}</span>
          <IconButton icon="help" label="Help and shortcuts" onClick={() => { help.value = true; }} />
        </div>
      </header>
      <main id="main"><IssuerOutcome />{children}</main>
      {menu.value ? <Menu onClose={() => { menu.value = false; }} onHelp={() => { menu.value = false; help.value = true; }} /> : null}
      {help.value ? <Help shortcuts={shortcuts} onClose={() => { help.value = false; }} /> : null}
    </div>
  );
}

function focusMain(event: Event): void {
  event.preventDefault();
  document.querySelector<HTMLElement>("#main h1")?.focus();
}

function toFilters(): void {
  navigate(pathOf({ name: "history" }));
  // The page is there after the next drawing.
  window.setTimeout(() => document.querySelector<HTMLElement>("[data-first-filter]")?.focus(), 50);
}

/** A new page begins at its title, as it would with a new document. */
function useFocusOnNavigation(): void {
  const where = path.value;
  const first = useSignal(true);
  useLayoutEffect(() => {
    if (first.peek()) {
      first.value = false;
    } else if (document.querySelector("dialog[open]") === null) {
      document.querySelector<HTMLElement>("#main h1")?.focus({ preventScroll: true });
    }
  }, [where]);
}

function Menu({ onClose, onHelp }: { onClose: () => void; onHelp: () => void }) {
  return (
    <Dialog title="More" onClose={onClose}>
      <nav class="menu" aria-label="More pages">
        {entries.slice(inBar).map((entry) => <NavLink key={entry.name} entry={entry} onClick={onClose} />)}
        <button type="button" onClick={onHelp}><Icon name="help" /><span>Help and shortcuts</span></button>
      </nav>
      <p class="who">{current.value?.email}</p>
      <Button look="quiet" onClick={onClose}>Close</Button>
    </Dialog>
  );
}

const onPages: readonly [string, string][] = [
  ["j", "Next in a list"],
  ["k", "Previous in a list"],
  ["Enter", "Open it"],
  [`${modifier} Enter`, "Submit the playground"],
  ["Esc", "Close what lies over the page"],
];

function Help({ shortcuts, onClose }: { shortcuts: readonly Shortcut[]; onClose: () => void }) {
  return (
    <Dialog title="Help" onClose={onClose}>
      <p><a href={pathOf({ name: "start" })} onClick={onClose}>First run: from a key to a sound</a></p>
      <h3>Shortcuts{enabled.value ? "" : " (switched off in Settings)"}</h3>
      <table class="keys-table">
        <tbody>
          {[...shortcuts.map((shortcut) => [shortcut.keys, shortcut.does] as const), ...onPages].map(([keys, does]) => (
            <tr key={keys}>
              <th scope="row">{keys.split(" ").map((key) => <kbd key={key}>{key}</kbd>)}</th>
              <td>{does}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <Button onClick={onClose}>Close</Button>
    </Dialog>
  );
}
