// Why a question to the server has no answer.

export interface Refused {
  kind: "refused";
  status: number;
  code: string;
  message: string;
  param?: string;
  requestId: string;
  retryAfter?: number;  // Seconds.
}
/** The server cannot be reached. */
export interface Offline { kind: "offline" }
/** It answered something that is not of this interface: a proxy's page, say. */
export interface Broken { kind: "broken"; status: number; requestId: string }

export type Failure = Refused | Offline | Broken;

export class ApiFailure extends Error {
  constructor(readonly failure: Failure) {
    super(sentence(failure));
  }
}

/** What the service says of every 429 and 503 that has no reason of its own, in our words: the seconds stand beside it, and go. */
const usual: readonly (readonly [number, RegExp, string])[] = [
  [429, /^Requests are too frequent; send the next one in \d+ s\.$/, "Too many requests just now."],
  [503, /^The service is temporarily unavailable; send the request again\.$/, "The service is busy or being restarted."],
];

/** What happened, for people. */
export function sentence(failure: Failure): string {
  switch (failure.kind) {
    case "offline":
      return "The service cannot be reached.";
    case "broken":
      return `The answer was not understood (HTTP ${failure.status}).`;
    case "refused":
      return usual.find(([status, form]) => failure.status === status && form.test(failure.message))?.[2] ?? failure.message;
  }
}

/** Of anything that was thrown; what is no failure of a request is a bug and goes on. */
export function failureOf(thrown: unknown): Failure {
  if (thrown instanceof ApiFailure) {
    return thrown.failure;
  }
  throw thrown;
}

export function isCode(failure: Failure | undefined, code: string): boolean {
  return failure?.kind === "refused" && failure.code === code;
}
