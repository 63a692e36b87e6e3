// Which page an address is, and back. Every page and every filter has an address, so that reload,
// bookmark and the back button do what people expect.

export const root = "/console/";

export type Page =
  | { name: "overview" | "start" | "playground" | "history" | "keys" | "usage" | "billing" | "reference" | "settings" }
  | { name: "generation"; id: string }
  | { name: "missing" };

const plain = ["start", "playground", "history", "keys", "usage", "billing", "reference", "settings"] as const;

export function pageOf(path: string): Page {
  if (path === "/console" || path === root) {
    return { name: "overview" };
  }
  const segments = path.startsWith(root) ? path.slice(root.length).replace(/\/$/, "").split("/") : [];
  const [first, second] = segments;
  if (segments.length === 1) {
    const name = plain.find((candidate) => candidate === first);
    return name === undefined ? { name: "missing" } : { name };
  }
  if (segments.length === 2 && first === "generations" && second !== undefined && second !== "") {
    return { name: "generation", id: decoded(second) };
  }
  return { name: "missing" };
}

/** As it is when it is not well encoded. */
export function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

export function pathOf(page: Exclude<Page, { name: "missing" }>): string {
  switch (page.name) {
    case "overview":
      return root;
    case "generation":
      return `${root}generations/${encodeURIComponent(page.id)}`;
    default:
      return root + page.name;
  }
}

/** `?a=b` of the members that have a value; "" when none has. */
export function query(members: Record<string, string | undefined>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) {
    if (value !== undefined && value !== "") {
      search.set(name, value);
    }
  }
  const text = search.toString();
  return text === "" ? "" : `?${text}`;
}

/** The value when it is one of `allowed`, else the first of them. */
export function oneOf<T extends string>(value: string | null, allowed: readonly [T, ...T[]]): T {
  return allowed.find((candidate) => candidate === value) ?? allowed[0];
}
