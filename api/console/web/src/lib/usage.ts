// Usage as the chart and its table show it.
import { type Decimal, fromThousandths, thousandths } from "./decimal";
import { bucketMilliseconds, type Bucket } from "./time";

export interface UsageRow {
  start: string;
  end: string;
  key_id?: string | null;
  voice?: string | null;
  generations: Decimal;
  succeeded: Decimal;
  failed: Decimal;
  canceled: Decimal;
  audio_seconds: Decimal;
  credits: Decimal;
}

export interface Point {
  start: string;
  credits: Decimal;
  generations: bigint;
  complete: boolean;  // Nothing is added to it any more.
}

/** One point for every start, with or without rows; `starts` are of RFC 3339. */
export function series(starts: readonly string[], rows: readonly UsageRow[], bucket: Bucket, completeTo: string): Point[] {
  const byStart = new Map<number, { credits: bigint; generations: bigint }>();
  for (const row of rows) {
    const at = Date.parse(row.start);
    const before = byStart.get(at) ?? { credits: 0n, generations: 0n };
    byStart.set(at, {
      credits: before.credits + thousandths(row.credits),
      generations: before.generations + BigInt(row.generations),
    });
  }
  return starts.map((start) => {
    const at = Date.parse(start);
    const found = byStart.get(at);
    return {
      start,
      credits: fromThousandths(found?.credits ?? 0n),
      generations: found?.generations ?? 0n,
      complete: at + bucketMilliseconds[bucket] <= Date.parse(completeTo),
    };
  });
}

/** The top of an axis: the next of 1, 2 and 5 times a power of ten; 10 at least, the least charge. */
export function axisTop(largest: number): number {
  const wanted = Math.max(largest, 10);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= wanted) ?? 10;
  return step * power;
}

/** Columns of numbers that a table can sum exactly. */
export const measures = ["generations", "succeeded", "failed", "canceled", "audio_seconds", "credits"] as const;
export type Measure = (typeof measures)[number];

export interface Share { group: string | null; totals: Record<Measure, Decimal> }

/** What each key or voice used in the whole span, the dearest first. */
export function shares(rows: readonly UsageRow[], by: "key_id" | "voice"): Share[] {
  const groups = new Map<string | null, Record<Measure, bigint>>();
  for (const row of rows) {
    const group = row[by] ?? null;
    const totals = groups.get(group) ??
      { generations: 0n, succeeded: 0n, failed: 0n, canceled: 0n, audio_seconds: 0n, credits: 0n };
    for (const measure of measures) {
      totals[measure] += thousandths(row[measure]);
    }
    groups.set(group, totals);
  }
  return [...groups]
    .sort(([, a], [, b]) => (a.credits < b.credits ? 1 : a.credits > b.credits ? -1 : 0))
    .map(([group, totals]) => ({
      group,
      totals: Object.fromEntries(measures.map((measure) => [measure, fromThousandths(totals[measure])])) as
        Record<Measure, Decimal>,
    }));
}
