// Follows an open generation until it is final.
import { generations } from "../api/calls";
import { ApiFailure, type Failure, failureOf } from "../api/failure";
import { type Generation, isOpen, type Progress } from "../api/types";
import { retryDelay } from "../lib/retry";
import { pause } from "./pause";
import { signedInAgain } from "./session";

const holdSeconds = 20;
const pauseSeconds = 3;
/** After so many failures that a lost connection does not explain, something on the way does not let events through. */
const streamFailuresMax = 3;

/** Why there is no answer now, and when it is asked for again by itself; nobody knows when while nobody is signed in. */
export interface Trouble { failure: Failure; retryAt?: number | undefined }

export interface Follower {
  update: (generation: Generation) => void;
  progress: (progress: Progress | undefined) => void;  // undefined: not known now.
  trouble: (trouble: Trouble | undefined) => void;  // undefined: it is over.
}

/** What is followed now, by its id: once, however many places show it. */
const followed = new Map<string, Shared>();

/**
 * Until the generation is final, `signal` says so, or it cannot be had; then the answer is why. Its
 * changes come as events. Where those do not get through, or another has the stream, one request waits
 * at the server; where that has no room for it, it asks every few seconds.
 */
export function follow(id: string, follower: Follower, signal: AbortSignal): Promise<Failure | undefined> {
  if (signal.aborted) {
    return Promise.resolve(undefined);
  }
  const shared = followed.get(id) ?? new Shared(id);
  return shared.join(follower, signal);
}

class Shared implements Follower {
  private readonly followers = new Set<Follower>();
  private readonly stop = new AbortController();
  private readonly end: Promise<Failure | undefined>;
  private told: Progress | undefined;

  constructor(private readonly id: string) {
    followed.set(id, this);
    this.end = run(id, this, this.stop.signal).finally(() => this.forget());
  }

  join(follower: Follower, signal: AbortSignal): Promise<Failure | undefined> {
    this.followers.add(follower);
    follower.progress(this.told);
    const left = new Promise<undefined>((resolve) => {
      signal.addEventListener("abort", () => {
        this.followers.delete(follower);
        if (this.followers.size === 0) {
          this.forget();
          this.stop.abort();
        }
        resolve(undefined);
      });
    });
    return Promise.race([this.end, left]);
  }

  readonly update = (generation: Generation) => this.followers.forEach((one) => one.update(generation));
  readonly trouble = (trouble: Trouble | undefined) => this.followers.forEach((one) => one.trouble(trouble));
  readonly progress = (progress: Progress | undefined) => {
    this.told = progress;
    this.followers.forEach((one) => one.progress(progress));
  };

  private forget(): void {
    if (followed.get(this.id) === this) {
      followed.delete(this.id);
    }
  }
}

/** The one stream of this tab. What is followed from now on takes it over; what tries again does not. */
let held: AbortController | undefined;

async function run(id: string, follower: Follower, signal: AbortSignal): Promise<Failure | undefined> {
  const stream = new Streamed(id, follower, signal);
  let attempt = 0;
  for (let first = true; !signal.aborted; first = false) {
    try {
      if (await stream.run(first)) {
        return undefined;
      }
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
      const expired = failure.kind === "refused" && failure.status === 401;
      const delay = retryDelay(failure, attempt);
      follower.trouble({ failure, ...(delay === undefined ? {} : { retryAt: Date.now() + delay * 1000 }) });
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

/** The events of one generation, as long as they come. */
class Streamed {
  private failures = 0;
  private lastId = "";

  constructor(private readonly id: string, private readonly follower: Follower, private readonly signal: AbortSignal) {}

  /** True: it is final. False: there are no events now, and it must be asked for. Never throws. */
  async run(takeOver: boolean): Promise<boolean> {
    let final: boolean | undefined = false;
    for (let first = true; first || final === undefined; first = false) {
      if (!first) {
        await pause(pauseSeconds, this.signal);  // As EventSource does.
      }
      final = this.failures < streamFailuresMax && !this.signal.aborted && ((first && takeOver) || held === undefined)
        ? await this.once() : false;
    }
    this.follower.progress(undefined);
    return final === true;
  }

  /** Undefined: the server has ended it, and it is not final. */
  private async once(): Promise<boolean | undefined> {
    held?.abort();
    const own = new AbortController();
    held = own;
    const stop = () => own.abort();
    this.signal.addEventListener("abort", stop);
    let final = false;
    let came = false;
    try {
      await generations.events(this.id, {
        signal: own.signal, lastId: this.lastId,
        onEvent: (type, data, eventId) => {
          came = true;
          this.lastId = eventId;
          final = this.tell(type, data) || final;
        },
      });
      // One that ends without a word would be asked for again at once, and for ever.
      return final || (came ? undefined : this.failed());
    } catch (thrown) {
      const lost = thrown instanceof ApiFailure && thrown.failure.kind === "offline";
      return final || (lost || own.signal.aborted ? false : this.failed());
    } finally {
      this.signal.removeEventListener("abort", stop);
      if (held === own) {
        held = undefined;
      }
    }
  }

  private failed(): false {
    this.failures += 1;
    return false;
  }

  private tell(type: string, data: unknown): boolean {
    if (this.signal.aborted) {
      return false;
    }
    if (type === "progress") {
      this.follower.progress(data as Progress);
    } else if (type === "status") {
      this.follower.trouble(undefined);
      this.follower.update(data as Generation);
      return !isOpen(data as Generation);
    }
    return false;
  }
}
