// The one way to the server. Everything goes to the console's own door, where the session's cookie
// says who asks; the pages never hold a credential.
import { EventStream } from "../lib/event_stream";
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
 * Whose page this tab shows: the cookie may be another's by now, and then nothing is done for him.
 * `whenOther`: what happens when it is.
 */
let shown: string | undefined;
let whenOther: () => void = () => undefined;
export function showAccount(id: string | undefined): void {
  shown = id;
}
/** Says to the server whose page this is. */
export function accountHeader(): Record<string, string> {
  return shown === undefined ? {} : { "X-Account": shown };
}
export function onOtherAccount(handler: () => void): void {
  whenOther = handler;
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

export interface StreamOptions {
  signal: AbortSignal;
  lastId: string;  // Of the last event that is known; "" at first.
  onEvent: (type: string, data: unknown, id: string) => void;
}

/** The server says something every 15 s, and at the beginning at once; what has to wait longer is dead or held up on the way. */
const silence = 40_000;
const firstWithin = 10_000;

/**
 * Server-sent events, by fetch: EventSource does not tell why there are none. Answers when the server
 * has ended them; throws as `ask` does, and when they break off.
 */
export async function stream(path: string, { signal, lastId, onEvent }: StreamOptions): Promise<void> {
  const ended = new AbortController();
  const stop = () => ended.abort();
  signal.addEventListener("abort", stop);
  let timer = window.setTimeout(stop, firstWithin);
  const wait = (milliseconds: number) => {
    window.clearTimeout(timer);
    timer = window.setTimeout(stop, milliseconds);
  };
  try {
    signal.throwIfAborted();
    const headers: Record<string, string> = lastId === "" ? {} : { "Last-Event-ID": lastId };
    const response = await reach(path, { headers, signal: ended.signal }, "text/event-stream");
    if (response.status === 204) {
      return;
    }
    if (!response.ok) {
      throw refusal(response, await readBody(response));
    }
    if (response.body === null || !(response.headers.get("Content-Type") ?? "").startsWith("text/event-stream")) {
      throw new ApiFailure(broken(response));
    }
    // Whoever goes on from an event that is known hears of the next one only.
    wait(lastId === "" ? firstWithin : silence);
    const events = new EventStream();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      wait(silence);
      for (const event of events.take(piece.value)) {
        onEvent(event.type, parseExact(event.data), event.id);
      }
    }
  } catch (thrown) {
    if (thrown instanceof ApiFailure || signal.aborted) {
      throw thrown;
    }
    throw new ApiFailure(ended.signal.aborted ? { kind: "broken", status: 200, requestId: "" } : { kind: "offline" });
  } finally {
    window.clearTimeout(timer);
    signal.removeEventListener("abort", stop);
    ended.abort();
  }
}

async function reach(path: string, asked: Asked, accept: string): Promise<Response> {
  const headers: Record<string, string> = { Accept: accept, ...accountHeader(), ...asked.headers };
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
  if (failure.kind === "refused" && failure.code === "other_account") {
    whenOther();
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
