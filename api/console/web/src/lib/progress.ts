// What is told of a generation that is not final yet, in words.
import type { Generation, Progress, Range, TimelineItem } from "../api/types";
import { credits, type Decimal, grouped } from "./decimal";

/** What it waits for. `queued`: as far as the status alone tells. */
export function waitingFor(progress: Progress | undefined, queued: boolean): string {
  switch (progress?.waiting_on) {
    case "capacity": return "Waiting for a free worker";
    case "provider": return "Making the audio";
    case "retry": return "Waiting for another attempt";
    case "reference": return "Waiting for room to fetch what it refers to";
    default: return queued ? "Waiting for another attempt" : "Making the audio";
  }
}

/** "next in line, begins in about 2–5 s, done in about 4–9 s"; "" when nothing is known. */
export function forecast(progress: Progress | undefined): string {
  if (progress === undefined) {
    return "";
  }
  const parts = [
    place(progress.position),
    progress.start_in_seconds === null ? "" : `begins ${within(progress.start_in_seconds)}`,
    progress.done_in_seconds === null ? "" : `done ${within(progress.done_in_seconds)}`,
  ];
  return parts.filter((part) => part !== "").join(", ");
}

function place(position: Decimal | null): string {
  if (position === null) {
    return "";
  }
  return position === "1" ? "next in line" : `number ${grouped(position)} in line`;
}

/** "at once", "in about 4 s", "in about 2–5 s", "in about 1–3 min". */
export function within({ p50, p90 }: Range): string {
  const [soon, late] = [Number(p50), Number(p90)];
  if (late < 1) {
    return "at once";
  }
  const [size, unit] = late < 120 ? [1, "s"] : [60, "min"];
  const from = Math.round(soon / size);
  const to = Math.ceil(late / size);
  return from >= to ? `in about ${to} ${unit}` : from === 0 ? `within ${to} ${unit}` : `in about ${from}–${to} ${unit}`;
}

/** How a final one ended, to be read out. */
export function ending({ status, usage }: Pick<Generation, "status" | "usage">): string {
  return status === "succeeded" && usage !== null ? `Ready. Charged ${credits(usage.credits)}.`
    : status === "succeeded" ? "Ready."
    : status === "failed" ? "Failed. The reservation was returned." : "Canceled. The reservation was returned.";
}

/** One line of the timeline; what is said of an attempt beside how it went is the service's own sentence. */
export function happened(item: TimelineItem): string {
  switch (item.type) {
    case "created": return "Accepted";
    case "succeeded": return "Ready";
    case "failed": return "Failed";
    case "canceled": return "Canceled";
    case "deleted": return "Text and audio deleted";
    case "attempt": return `Attempt ${item.number} ${outcomes[item.outcome] ?? item.outcome}`;
  }
}

const outcomes: Record<string, string> = {
  running: "is under way",
  succeeded: "made the audio",
  failed: "failed",
  interrupted: "was interrupted",
  not_begun: "was not begun",
};
