// The one way to the server. Everything goes to the console's own door, where the session's cookie
// says who asks; the pages never hold a credential.
import { parseExact } from "../lib/exact_json";
import { ApiFailure, type Failure } from "./failure";

const door = "/console/api/v1";

export interface Asked {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  body?: unknown;  // Sent as JSON.
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
}
export interface Answer<T> { body: T; headers: Headers }

let whenUnauthorized: () => void = () => undefined;
/** What happens when the server says that there is no session any more. */
export function onUnauthorized(handler: () => void): void {
  whenUnauthorized = handler;
}

/**
 * The answer of a 2xx with its body, exact (src/lib/exact_json.ts); undefined where there is none.
 * Throws ApiFailure, and AbortError when `signal` says so.
 */
export async function ask<T>(path: string, asked: Asked = {}): Promise<Answer<T>> {
  const response = await reach(path, asked, "application/json");
  const text = await readBody(response);
  if (!response.ok) {
    throw refusal(response, text);
  }
  try {
    return { body: (text === "" ? undefined : parseExact(text)) as T, headers: response.headers };
  } catch {
    throw new ApiFailure(broken(response));
  }
}

/** The body of `ask`. */
export async function read<T>(path: string, asked: Asked = {}): Promise<T> {
  return (await ask<T>(path, asked)).body;
}

/** The same as comma-separated values. */
export async function readCsv(path: string, signal?: AbortSignal): Promise<string> {
  const response = await reach(path, { signal }, "text/csv");
  const text = await readBody(response);
  if (!response.ok) {
    throw refusal(response, text);
  }
  return text;
}

async function reach(path: string, asked: Asked, accept: string): Promise<Response> {
  const headers: Record<string, string> = { Accept: accept, ...asked.headers };
  const init: RequestInit = {
    method: asked.method ?? "GET",
    headers,
    credentials: "same-origin",
    cache: "no-store",
    redirect: "error",
    signal: asked.signal ?? null,
  };
  if (asked.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(asked.body);
  }
  try {
    return await fetch(door + path, init);
  } catch (thrown) {
    throw unreachable(thrown);
  }
}

async function readBody(response: Response): Promise<string> {
  try {
    return await response.text();
  } catch (thrown) {
    throw unreachable(thrown);
  }
}

function unreachable(thrown: unknown): unknown {
  const aborted = thrown instanceof DOMException && thrown.name === "AbortError";
  return aborted ? thrown : new ApiFailure({ kind: "offline" });
}

function refusal(response: Response, text: string): ApiFailure {
  const failure = refusedBy(response, text);
  if (failure.kind === "refused" && failure.code === "invalid_api_key") {
    whenUnauthorized();
  }
  return new ApiFailure(failure);
}

function refusedBy(response: Response, text: string): Failure {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return broken(response);
  }
  const error = (body as { error?: Record<string, unknown> } | null)?.error;
  if (typeof error?.["code"] !== "string" || typeof error["message"] !== "string") {
    return broken(response);
  }
  const retryAfter = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  return {
    kind: "refused",
    status: response.status,
    code: error["code"],
    message: error["message"],
    requestId: typeof error["request_id"] === "string" ? error["request_id"] : requestId(response),
    ...(typeof error["param"] === "string" ? { param: error["param"] } : {}),
    ...(Number.isFinite(retryAfter) ? { retryAfter } : {}),
  };
}

function broken(response: Response): Failure {
  return { kind: "broken", status: response.status, requestId: requestId(response) };
}

function requestId(response: Response): string {
  return response.headers.get("X-Request-Id") ?? "";
}
