import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { generations } from "../api/calls";
import { failureOf, sentence } from "../api/failure";
import type { Estimate } from "../api/types";
import { grouped } from "../lib/decimal";
import type { RequestBody } from "../lib/draft";

/** Not at every key stroke. */
const pause = 400;

/** What the request would cost or be refused for, as the service says, while it is being written. */
export function PriceEstimate({ body, ready }: { body: RequestBody; ready: boolean }) {
  const estimate = useSignal<Estimate | undefined>(undefined);
  const refusal = useSignal<string | undefined>(undefined);
  const text = JSON.stringify(body);
  useEffect(() => {
    if (!ready) {
      estimate.value = undefined;
      refusal.value = undefined;
      return;
    }
    const asking = new AbortController();
    const timer = window.setTimeout(async () => {
      try {
        estimate.value = await generations.estimate(body, asking.signal);
        refusal.value = undefined;
      } catch (thrown) {
        if (!asking.signal.aborted) {
          const failure = failureOf(thrown);
          estimate.value = undefined;
          // Whatever else is wrong, the creation tells better than a guess of its price.
          refusal.value = failure.kind === "refused" && failure.status === 400 ? sentence(failure) : undefined;
        }
      }
    }, pause);
    return () => {
      window.clearTimeout(timer);
      asking.abort();
    };
  }, [text, ready]);

  if (refusal.value !== undefined) {
    return <p class="estimate problem">{refusal.value}</p>;
  }
  const shown = estimate.value;
  if (shown === undefined) {
    return <p class="estimate muted">{ready ? "Estimating…" : "The estimate appears as you write."}</p>;
  }
  return (
    <p class="estimate">
      About <strong>{grouped(shown.expected_credits)} credits</strong>
      <span class="muted"> for {Math.floor(Number(shown.seconds.p10))}–{Math.ceil(Number(shown.seconds.p90))} s; {grouped(shown.min_credits)} at least, {grouped(shown.max_credits)} at most</span>
    </p>
  );
}
