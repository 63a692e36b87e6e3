import assert from "node:assert/strict";
import { test } from "node:test";
import type { Decimal } from "../src/lib/decimal";
import { receiptLines, receiptSum } from "../src/lib/receipt";
import { axisTop, series, shares, type UsageRow } from "../src/lib/usage";

const of = (text: string) => text as Decimal;
const row = (start: string, credits: string, more: Partial<UsageRow> = {}): UsageRow => ({
  start, end: start, generations: of("1"), succeeded: of("1"), failed: of("0"), canceled: of("0"),
  audio_seconds: of("15"), credits: of(credits), ...more,
});

test("a series has a point for every bucket, sums exactly and knows what is complete", () => {
  const starts = ["2026-11-18T00:00:00Z", "2026-11-19T00:00:00Z", "2026-11-20T00:00:00Z"];
  const rows = [row("2026-11-18T00:00:00.000Z", "0.1"), row("2026-11-18T00:00:00Z", "0.2"), row("2026-11-20T00:00:00Z", "10")];
  assert.deepEqual(series(starts, rows, "day", "2026-11-20T05:00:00Z"), [
    { start: starts[0], credits: "0.3", generations: 2n, complete: true },
    { start: starts[1], credits: "0", generations: 0n, complete: true },
    { start: starts[2], credits: "10", generations: 1n, complete: false },
  ]);
});

test("the top of an axis is a round number that holds all", () => {
  assert.deepEqual([0, 10, 10.001, 21, 99, 100, 4001].map(axisTop), [10, 10, 20, 50, 100, 100, 5000]);
});

test("shares are summed by group, the dearest first; no key is a group, too", () => {
  const rows = [row("a", "10", { key_id: "key_1" }), row("b", "12.5", { key_id: null }), row("c", "5", { key_id: "key_1" })];
  assert.deepEqual(shares(rows, "key_id").map((share) => [share.group, share.totals.credits, share.totals.generations]),
    [["key_1", "15", "2"], [null, "12.5", "1"]]);
});

test("receipts sum to nothing, exactly", () => {
  const lines = receiptLines({ reserved_credits: of("150"), charged_credits: of("18.751"), returned_credits: of("131.249") });
  assert.deepEqual(lines.map((line) => line.amount), ["150", "-18.751", "-131.249"]);
  assert.equal(receiptSum(lines), "0");
  assert.deepEqual(receiptLines({ reserved_credits: of("150") }), []);
});
