/** How long the service says a text is: Unicode code points. */
export function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) {
    count += 1;
  }
  return count;
}

/** The first line's worth of a text, for a list. */
export function excerpt(text: string, limit = 120): string {
  const line = text.replace(/\s+/g, " ").trim();
  const points = [...line];
  return points.length <= limit ? line : `${points.slice(0, limit - 1).join("").trimEnd()}…`;
}

/** "1 generation", "3 generations". */
export function plural(count: number | bigint, one: string, many = `${one}s`): string {
  return `${count.toString().replace(/\B(?=(\d{3})+$)/g, ",")} ${count.toString() === "1" ? one : many}`;
}

/** "Firefox on Linux" from a User-Agent; the text itself when it names neither. */
export function deviceName(agent: string): string {
  const browser =
    /Edg\//.test(agent) ? "Edge"
    : /Firefox\//.test(agent) ? "Firefox"
    : /Chrom(e|ium)\//.test(agent) ? "Chrome"
    : /Safari\//.test(agent) ? "Safari"
    : /^curl\//.test(agent) ? "curl"
    : undefined;
  const system =
    /iPhone|iPad/.test(agent) ? "iOS"
    : /Android/.test(agent) ? "Android"
    : /Windows/.test(agent) ? "Windows"
    : /Mac OS X/.test(agent) ? "macOS"
    : /CrOS/.test(agent) ? "ChromeOS"
    : /Linux/.test(agent) ? "Linux"
    : undefined;
  if (browser !== undefined && system !== undefined) {
    return `${browser} on ${system}`;
  }
  return browser ?? system ?? (agent === "" ? "Unknown device" : excerpt(agent, 60));
}

/** Whose sign-in it is, for people: the host of an issuer's address; the address itself where it is none. */
export function issuerHost(issuer: string): string {
  try {
    return new URL(issuer).host || issuer;
  } catch {
    return issuer;
  }
}

/** The token of the link that confirms a mail address, in the fragment of an address. */
export function mailToken(hash: string): string | undefined {
  return /^#mail=([A-Za-z0-9_-]+)$/.exec(hash)?.[1];
}

/** The token of a sign-in link, or of its fragment alone; undefined when there is none. */
export function loginToken(text: string): string | undefined {
  return /#login=([A-Za-z0-9_-]+)/.exec(text)?.[1];
}
