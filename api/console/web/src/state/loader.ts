// One answer that a page shows: loads it, keeps it while a newer one is asked for, asks again by
// itself where that helps, and for a newer one when somebody comes back to the page.
import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { type Failure, failureOf } from "../api/failure";
import { retryDelay } from "../lib/retry";
import { isStale } from "../lib/time";
import { current, renewals } from "./session";

/** A skeleton, or an age, that comes and goes at once is only a flicker. */
const slowAfter = 200;

export class Loader<T> {
  readonly data = signal<T | undefined>(undefined);
  readonly failure = signal<Failure | undefined>(undefined);
  readonly busy = signal(false);
  readonly slow = signal(false);  // Busy for longer than slowAfter, with nothing to show, or for somebody who came back to what is old.
  readonly loadedAt = signal<number | undefined>(undefined);
  readonly retryAt = signal<number | undefined>(undefined);

  private load: ((signal: AbortSignal) => Promise<T>) | undefined;
  private running: AbortController | undefined;
  private slowTimer: number | undefined;
  private retryTimer: number | undefined;
  private attempt = 0;

  /** From now on this is what is asked for; what is there stays until the answer comes. */
  show(load: (signal: AbortSignal) => Promise<T>): void {
    this.load = load;
    this.attempt = 0;
    void this.reload();
  }

  /** Answers when the answer is shown, or why there is none. */
  reload = (): Promise<void> => this.ask(false);

  /** Of a reload after something was done here nothing is told: what is there would move under the pointer. */
  private async ask(isBack: boolean): Promise<void> {
    if (this.load === undefined) {
      return;
    }
    this.stop();
    const running = new AbortController();
    this.running = running;
    this.busy.value = true;
    this.slowTimer = window.setTimeout(() => {
      this.slow.value = isBack || this.data.peek() === undefined;
    }, slowAfter);
    try {
      const data = await this.load(running.signal);
      if (this.running === running) {
        this.arrived(data);
      }
    } catch (thrown) {
      if (this.running === running) {
        this.failed(failureOf(thrown));
      }
    }
  }

  /** Puts in what is known without asking: the answer to a change. */
  set(data: T): void {
    this.stop();
    this.arrived(data);
  }

  /** The answer of a request under way is not waited for any more. */
  stop(): void {
    window.clearTimeout(this.slowTimer);
    window.clearTimeout(this.retryTimer);
    this.retryAt.value = undefined;
    this.running?.abort();
    this.running = undefined;
  }

  /** The connection is back, or somebody has signed in: no reason to wait. */
  again = (): void => {
    if (this.failure.peek() !== undefined && this.running === undefined) {
      void this.reload();
    }
  };

  /** Somebody looks at the page again. What failed has a time of its own at which it is asked again. */
  refresh = (): void => {
    const at = this.loadedAt.peek();
    const idle = this.running === undefined && this.failure.peek() === undefined;
    if (idle && at !== undefined && document.visibilityState === "visible" && isStale(at, Date.now())) {
      void this.ask(true);
    }
  };

  private arrived(data: T): void {
    this.attempt = 0;
    this.data.value = data;
    this.failure.value = undefined;
    this.loadedAt.value = Date.now();
    this.settled();
  }

  private failed(failure: Failure): void {
    this.failure.value = failure;
    this.settled();
    const delay = retryDelay(failure, this.attempt);
    if (delay !== undefined) {
      this.attempt += 1;
      this.retryAt.value = Date.now() + delay * 1000;
      this.retryTimer = window.setTimeout(() => void this.reload(), delay * 1000);
    }
  }

  private settled(): void {
    window.clearTimeout(this.slowTimer);
    this.running = undefined;
    this.busy.value = false;
    this.slow.value = false;
  }
}

/**
 * Loads when the component appears, whenever `inputs` change, and when somebody comes back to a page whose answer is old, unless
 * it is to be `still`; stops when the component goes.
 */
export function useLoader<T>(
  load: (signal: AbortSignal) => Promise<T>, inputs: readonly unknown[] = [], { still = false }: { still?: boolean } = {},
): Loader<T> {
  const loader = useMemo(() => new Loader<T>(), []);
  useEffect(() => {
    loader.show(load);
  }, inputs);
  useEffect(() => {
    window.addEventListener("online", loader.again);
    if (!still) {
      document.addEventListener("visibilitychange", loader.refresh);
    }
    const signedIn = renewals.subscribe(() => {
      if (current.peek() !== undefined) {
        loader.again();
      }
    });
    return () => {
      window.removeEventListener("online", loader.again);
      document.removeEventListener("visibilitychange", loader.refresh);
      signedIn();
      loader.stop();
    };
  }, []);
  return loader;
}
