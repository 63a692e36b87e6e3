import { signal } from "@preact/signals";
import { forget, recall, remember } from "./storage";

export const themes = ["system", "light", "dark"] as const;
export type Theme = (typeof themes)[number];

/** The one that was chosen; src/early.ts has set it on the document before the first paint. */
export const theme = signal<Theme>(themes.find((name) => name === recall("browser", "theme")) ?? "system");

export function chooseTheme(chosen: Theme): void {
  theme.value = chosen;
  if (chosen === "system") {
    forget("browser", "theme");
    delete document.documentElement.dataset["theme"];
  } else {
    remember("browser", "theme", chosen);
    document.documentElement.dataset["theme"] = chosen;
  }
}
