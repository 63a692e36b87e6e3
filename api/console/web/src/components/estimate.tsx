import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { generations } from "../api/calls";
import { failureOf, sentence } from "../api/failure";
import type { Estimate } from "../api/types";
import { grouped } from "../lib/decimal";
import type { RequestBody } from "../lib/draft";
import { within } from "../lib/progress";
import { retryDelay } from "../lib/retry";
import { renewals } from "../state/session";

/** Not at every key stroke. */
const pause = 400;

/** What the request would cost or be refused for, as the service says, while it is being written. */
export function PriceEstimate({ body, ready }: { body: RequestBody; ready: boolean }) {
  const estimate = useSignal<Estimate | undefined>(undefined);
  const refusal = useSignal<string | undefined>(undefined);
  const away = useSignal<string | undefined>(undefined);  // Why there is none; asked for again by itself.
  const text = JSON.stringify(body);
  useEffect(() => {
    if (!ready) {
      estimate.value = undefined;
      refusal.value = undefined;
      away.value = undefined;
      return;
    }
    const asking = new AbortController();
    let timer = 0;
    const ask = async (attempt: number) => {
      try {
        estimate.value = await generations.estimate(body, asking.signal);
        refusal.value = undefined;
        away.value = undefined;
      } catch (thrown) {
        if (!asking.signal.aborted) {
          const failure = failureOf(thrown);
          const delay = retryDelay(failure, attempt);
          estimate.value = undefined;
          // Whatever else is wrong, the creation tells better than a guess of its price.
          refusal.value = failure.kind === "refused" && failure.status === 400 ? sentence(failure) : undefined;
          away.value = refusal.value === undefined ? `No estimate just now. ${sentence(failure)}` : undefined;
          if (delay !== undefined) {
            timer = window.setTimeout(() => void ask(attempt + 1), delay * 1000);
          }
        }
      }
    };
    timer = window.setTimeout(() => void ask(0), pause);
    return () => {
      window.clearTimeout(timer);
      asking.abort();
    };
  }, [text, ready, renewals.value]);

  if (refusal.value !== undefined) {
    return <p class="estimate problem">{refusal.value}</p>;
  }
  const shown = estimate.value;
  if (shown === undefined) {
    return <p class="estimate muted">{away.value ?? (ready ? "Estimating…" : "The estimate appears as you write.")}</p>;
  }
  return (
    <p class="estimate">
      About <strong>{grouped(shown.expected_credits)} credits</strong>
      <span class="muted">
        {" "}for {Math.floor(Number(shown.seconds.p10))}–{Math.ceil(Number(shown.seconds.p90))} s; {grouped(shown.min_credits)} at least, {grouped(shown.max_credits)} at most
        {shown.start_in_seconds === null ? null : <>; begins {within(shown.start_in_seconds)}</>}
      </span>
    </p>
  );
}
