// How a generation stands, what came of it and what it cost: the same in the playground and on its page.
import { isOpen, type Generation, type Progress as Told } from "../api/types";
import { sentence } from "../api/failure";
import { credits, grouped } from "../lib/decimal";
import { forecast, waitingFor } from "../lib/progress";
import { useClock } from "../state/clock";
import type { Trouble } from "../state/follow";
import { StatusBadge } from "./basics";
import { Player } from "./player";
import { Countdown, Notice } from "./states";

const reasons: Record<string, string> = {
  provider_unavailable: "Nobody could make it just now.",
  provider_rejected: "It could not be made as it was asked for.",
  content_rejected: "The text was refused. Change it and try again.",
  unsupported_input: "What was asked for cannot be combined or is not supported.",
  reference_unavailable: "A reference could not be fetched. It must be public.",
  deadline_exceeded: "It took too long and was given up.",
  internal_error: "Something went wrong on our side.",
};

/** `told`: what the service says of it, as long as it says anything. */
export function Progress({ generation, since, told, trouble }: {
  generation: Generation | undefined; since: number; told?: Told | undefined; trouble: Trouble | undefined;
}) {
  const now = useClock(1000);
  const seconds = Math.max(0, Math.floor((now.value - since) / 1000));
  const text = generation === undefined ? "Sending" : waitingFor(told, generation.status === "queued");
  const when = generation === undefined ? "" : forecast(told);
  return (
    <div class="progress">
      <progress aria-label={text} />
      <p><span role="status">{text}</span> <span class="muted">{seconds} s</span></p>
      {when === "" ? null : <p class="muted forecast">{when.charAt(0).toUpperCase() + when.slice(1)}.</p>}
      {trouble === undefined ? null : (
        <>
          <p class="muted">{sentence(trouble.failure)} It goes on by itself.</p>
          {trouble.retryAt === undefined ? null : <Countdown what="Trying again" to={trouble.retryAt} />}
        </>
      )}
    </div>
  );
}

export function Outcome({ generation, onStale }: { generation: Generation; onStale: () => void }) {
  if (isOpen(generation)) {
    return null;
  }
  const { billing, output, usage, error } = generation;
  if (generation.status === "succeeded" && output !== null) {
    return (
      <>
        {usage === null ? null : (
          <p class="price">
            <span class="value">{grouped(usage.credits)}</span> credits charged
            {billing.returned_credits === undefined
              ? null : <span class="muted">, {grouped(billing.returned_credits)} of {grouped(billing.reserved_credits)} returned</span>}
          </p>
        )}
        <Player generation={generation} output={output} onStale={onStale} />
      </>
    );
  }
  const refund = billing.returned_credits ?? billing.reserved_credits;
  if (generation.status === "canceled" || error === null) {
    return <Notice><p>Canceled. <strong>Refunded {credits(refund)}</strong>; nothing was charged.</p></Notice>;
  }
  return (
    <Notice look="bad">
      <p><strong>{reasons[error.code] ?? "It failed."}</strong> {error.message}</p>
      <p><strong>Refunded {credits(refund)}</strong>; nothing was charged.</p>
      <p class="muted"><code>{error.code}</code>{error.retriable ? " · trying again may help" : ""}</p>
    </Notice>
  );
}

export function StatusLine({ generation }: { generation: Generation }) {
  return <p class="status-line"><StatusBadge status={generation.status} /> <code class="id">{generation.id}</code></p>;
}
