import { computed, signal } from "@preact/signals";
import { pageOf, root } from "../lib/path";

const here = signal({ path: window.location.pathname, search: window.location.search });

export const page = computed(() => pageOf(here.value.path));
export const path = computed(() => here.value.path);
export const search = computed(() => new URLSearchParams(here.value.search));

function follow(): void {
  here.value = { path: window.location.pathname, search: window.location.search };
}

/** Goes to an address of the console; `replace`: without a step for the back button. */
export function navigate(address: string, replace = false): void {
  if (replace) {
    window.history.replaceState(null, "", address);
  } else {
    window.history.pushState(null, "", address);
    window.scrollTo(0, 0);
  }
  follow();
}

/** Other values for some parameters of this address; undefined or "" takes one out. */
export function changeSearch(changes: Record<string, string | undefined>, replace = false): void {
  const next = new URLSearchParams(window.location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === "") {
      next.delete(name);
    } else {
      next.set(name, value);
    }
  }
  const text = next.toString();
  navigate(window.location.pathname + (text === "" ? "" : `?${text}`), replace);
}

/** Plain links are links: middle click, modifier keys and other targets stay the browser's. */
function onClick(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) {
    return;
  }
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (link === null || link.target !== "" || link.hasAttribute("download") || link.origin !== window.location.origin) {
    return;
  }
  const samePage = link.pathname === window.location.pathname && link.search === window.location.search;
  if (!link.pathname.startsWith(root) || (samePage && link.hash !== "")) {
    return;
  }
  event.preventDefault();
  navigate(link.pathname + link.search + link.hash);
}

export function startRouter(): void {
  window.addEventListener("popstate", follow);
  document.addEventListener("click", onClick);
}
