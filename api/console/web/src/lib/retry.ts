import type { Failure } from "../api/failure";

const longest = 30;
/** Seconds that somebody who looks at the page waits without being asked. */
const patience = 60;

function isLong(retryAfter: number | undefined): boolean {
  return retryAfter !== undefined && retryAfter > patience;
}

/**
 * Seconds until the same question is asked again by itself, undefined where asking again changes
 * nothing, or would come when nobody expects it any more. `attempt` counts from 0.
 */
export function retryDelay(failure: Failure, attempt: number): number | undefined {
  switch (failure.kind) {
    case "offline":
      return Math.min(2 ** attempt, longest);
    case "refused":
      return (failure.status === 429 || failure.status === 503) && !isLong(failure.retryAfter)
        ? Math.max(failure.retryAfter ?? 0, Math.min(2 ** attempt, longest))
        : undefined;
    case "broken":
      // A proxy says in its own words that the service behind it is away.
      return failure.status >= 500 ? Math.min(2 ** attempt, longest) : undefined;
  }
}

/**
 * Is it no word of the service on what was asked? Then that may have been done although no answer came. Who says that it
 * will take long has looked at it.
 */
export function leavesOpen(failure: Failure): boolean {
  return failure.kind !== "refused" || (failure.status >= 500 && !isLong(failure.retryAfter));
}

/** When the service allows what it has refused as too frequent, or because it is busy; undefined when it does not say. */
export function allowedAgain(failure: Failure, now: number): number | undefined {
  return failure.kind === "refused" && (failure.status === 429 || failure.status === 503) && failure.retryAfter !== undefined
    ? now + failure.retryAfter * 1000 : undefined;
}

/** The same where it is worth to keep a button from being pressed until then: soon. Who is to wait for longer decides himself. */
export function heldUntil(failure: Failure, now: number): number | undefined {
  return failure.kind === "refused" && isLong(failure.retryAfter) ? undefined : allowedAgain(failure, now);
}
