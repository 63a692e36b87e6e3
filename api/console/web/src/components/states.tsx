// What a page shows while its answer is on the way, and when there is none.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { type Failure, sentence } from "../api/failure";
import { allowedAgain } from "../lib/retry";
import { clock, waiting } from "../lib/time";
import { useSecondsUntil } from "../state/clock";
import type { Loader } from "../state/loader";
import { Button, CopyButton } from "./basics";
import { Icon } from "./icons";

/** What failed, why, the request's id for whoever is asked about it, and a way to go on. */
export function FailureNotice({ what, failure, retryAt, onRetry }: {
  what: string; failure: Failure; retryAt?: number | undefined; onRetry?: (() => void) | undefined;
}) {
  // What a person did is not done again by itself; they are told when it may be.
  const allowedAt = useMemo(() => allowedAgain(failure, Date.now()), [failure]);
  return (
    <div class="notice bad" role="alert">
      <Icon name="warning" />
      <div>
        <p><strong>{what}</strong> {sentence(failure)}</p>
        {retryAt !== undefined ? <Countdown what="Trying again" to={retryAt} />
          : allowedAt !== undefined ? <Countdown what="You may try again" to={allowedAt} /> : null}
        <div class="notice-actions">
          {failure.kind === "offline" || failure.requestId === "" ? null : (
            <>
              <span class="request-id">Request <code>{failure.requestId}</code></span>
              <CopyButton text={failure.requestId} label="Copy id" look="quiet" />
            </>
          )}
          {onRetry === undefined ? null : <Button icon="repeat" onClick={onRetry}>Retry</Button>}
        </div>
      </div>
    </div>
  );
}

/** Not read out every second: only the notice around it is an alert, and this is no part of that. */
export function Countdown({ what, to }: { what: string; to: number }) {
  const seconds = useSecondsUntil(to);
  return <p class="countdown" aria-live="off">{what} {seconds === 0 ? "now" : `in ${waiting(seconds)}`}.</p>;
}

export function Notice({ look = "", children }: { look?: "" | "good" | "bad" | "warn"; children: ComponentChildren }) {
  return (
    <div class={`notice ${look}`}>
      <Icon name={look === "good" ? "check" : look === "" ? "info" : "warning"} />
      <div>{children}</div>
    </div>
  );
}

export function Skeleton({ lines = 3 }: { lines?: number }) {
  return (
    <div class="skeleton" aria-hidden="true">
      {Array.from({ length: lines }, (_, index) => <div key={index} />)}
    </div>
  );
}

/**
 * The answer of a loader: a skeleton if it takes long, what is there with its age while a newer one
 * is long in coming or cannot be had, else why there is nothing. `room`: what it will be is about that high, so that nothing
 * below it moves when it comes.
 */
export function Loaded<T>({ loader, what, lines, room, children }: {
  loader: Loader<T>; what: string; lines?: number; room?: "figures" | "text" | "chart" | "balance"; children: (data: T) => ComponentChildren;
}) {
  const data = loader.data.value;
  const failure = loader.failure.value;
  return (
    <div class={room !== undefined && data === undefined && failure === undefined ? `loaded room-${room}` : "loaded"} aria-busy={loader.busy.value}>
      {failure === undefined ? null : (
        <FailureNotice
          what={`${what} could not be loaded.`} failure={failure}
          retryAt={loader.retryAt.value} onRetry={() => void loader.reload()}
        />
      )}
      {(failure !== undefined || loader.slow.value) && data !== undefined && loader.loadedAt.value !== undefined
        ? <p class="age">Shown as of {clock(loader.loadedAt.value)}.</p> : null}
      {data === undefined ? (loader.slow.value ? <Skeleton lines={lines ?? 3} /> : null) : children(data)}
    </div>
  );
}
