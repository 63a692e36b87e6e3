// Follows an open generation until it is final.
import { generations } from "../api/calls";
import { type Failure, failureOf } from "../api/failure";
import { type Generation, isOpen } from "../api/types";
import { retryDelay } from "../lib/retry";
import { signedInAgain } from "./session";

const holdSeconds = 20;
const pauseSeconds = 3;

export interface Follower {
  update: (generation: Generation) => void;
  trouble: (failure: Failure | undefined) => void;  // undefined: it is over.
}

/**
 * Asks until the generation is final, `signal` says so, or it cannot be had; then the answer is why.
 * Most of the time one request waits at the server; where that has no room for it, it asks every few
 * seconds.
 */
export async function follow(id: string, follower: Follower, signal: AbortSignal): Promise<Failure | undefined> {
  let attempt = 0;
  while (!signal.aborted) {
    try {
      const { generation, waited } = await generations.wait(id, holdSeconds, signal);
      if (attempt > 0) {
        follower.trouble(undefined);
        attempt = 0;
      }
      follower.update(generation);
      if (!isOpen(generation)) {
        return undefined;
      }
      if (!waited) {
        await pause(pauseSeconds, signal);
      }
    } catch (thrown) {
      if (signal.aborted) {
        return undefined;
      }
      const failure = failureOf(thrown);
      follower.trouble(failure);
      const expired = failure.kind === "refused" && failure.status === 401;
      const delay = retryDelay(failure, attempt);
      attempt += 1;
      if (expired) {
        await signedInAgain(signal);
      } else if (delay === undefined) {
        return failure;
      } else {
        await pause(delay, signal);
      }
    }
  }
  return undefined;
}

/** Ends early when the connection comes back. */
function pause(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      window.clearTimeout(timer);
      window.removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = window.setTimeout(done, seconds * 1000);
    window.addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}
