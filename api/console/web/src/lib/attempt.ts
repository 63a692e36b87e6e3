// A request that is put together by hand from the description of an operation.
import type { Operation } from "./openapi";

/** By place and name ("path task_id"); what is empty is not sent. */
export type Values = Readonly<Record<string, string>>;

export function fieldName(parameter: { place: string; name: string }): string {
  return `${parameter.place} ${parameter.name}`;
}

/** What a form begins with: what must be there, as the description shows it. A new key for each form: one key is one creation. */
export function firstValues(operation: Operation, newKey: () => string): Values {
  return Object.fromEntries(operation.parameters.map((parameter) => [
    fieldName(parameter),
    parameter.name === "Idempotency-Key" ? newKey() : parameter.required ? parameter.example ?? "" : "",
  ]));
}

export interface Attempt { method: string; path: string; headers: Record<string, string>; body?: string }

/** What a header can carry: a browser refuses to send anything else. */
export function isHeaderText(value: string): boolean {
  return /^[\x20-\x7e]+$/.test(value);
}

/** The request, or what is missing or wrong, by field; `body` is that of the body. */
export function attemptOf(operation: Operation, values: Values, body: string): Attempt | { problems: Record<string, string> } {
  const problems: Record<string, string> = {};
  const headers: Record<string, string> = {};
  const search = new URLSearchParams();
  let path = operation.path;
  for (const parameter of operation.parameters) {
    const field = fieldName(parameter);
    const value = (values[field] ?? "").trim();
    if (value === "") {
      if (parameter.required) {
        problems[field] = "It is required.";
      }
    } else if (parameter.place === "path") {
      path = path.replace(`{${parameter.name}}`, encodeURIComponent(value));
    } else if (parameter.place === "query") {
      search.append(parameter.name, value);
    } else if (parameter.place === "header") {
      if (!isHeaderText(value)) {
        problems[field] = "Headers take letters, digits and signs of ASCII only.";
      }
      headers[parameter.name] = value;
    }
  }
  const takesBody = operation.body.length > 0;
  if (takesBody) {
    try {
      JSON.parse(body);
    } catch (thrown) {
      problems["body"] = `That is no JSON: ${thrown instanceof Error ? thrown.message : "it cannot be read"}.`;
    }
  }
  if (Object.keys(problems).length > 0) {
    return { problems };
  }
  const question = search.toString();
  return { method: operation.method, path: question === "" ? path : `${path}?${question}`, headers, ...(takesBody ? { body } : {}) };
}

/** What cannot be taken back: it is asked about first. */
export function isDestructive(operation: Operation): boolean {
  return operation.method === "DELETE" || /\/(cancel|rotate)$/.test(operation.path);
}

/** Works on the very key that it is sent with, which a session has none of. */
export function isOfItsKey(operation: Operation): boolean {
  return operation.path.endsWith("/keys/current");
}

/** JSON with a line for each member, every number as it was written; what is no JSON as it is. */
export function indented(text: string): string {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  return text.replace(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|\s+/g, (token) => {
    if (/^\s/.test(token)) {
      return "";
    }
    switch (token) {
      case "{": case "[":
        depth += 1;
        return token + line();
      case "}": case "]":
        depth -= 1;
        return line() + token;
      case ",": return token + line();
      case ":": return ": ";
      default: return token.startsWith('"') ? token : token.replace(/\s/g, "");
    }
  });
}
