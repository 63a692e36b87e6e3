import type { Decimal } from "./decimal";

const stringOrNumber = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * Reads JSON with every number kept as the text that was sent, so that no amount ever passes through
 * a float. Throws SyntaxError on what is not JSON.
 */
export function parseExact(text: string): unknown {
  JSON.parse(text);  // Else the quotes below could make JSON of what was none.
  return JSON.parse(text.replace(stringOrNumber, (token) => (token[0] === '"' ? token : `"${token}"`)));
}

/** A number that is no amount: a limit, a count. */
export function integer(value: Decimal): number {
  return Number.parseInt(value, 10);
}
