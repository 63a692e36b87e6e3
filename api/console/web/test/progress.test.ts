import assert from "node:assert/strict";
import { test } from "node:test";
import type { Progress } from "../src/api/types";
import type { Decimal } from "../src/lib/decimal";
import { ending, forecast, happened, waitingFor, within } from "../src/lib/progress";

const range = (p50: string, p90: string) => ({ p50: p50 as Decimal, p90: p90 as Decimal });
const nothing: Progress = { waiting_on: null, position: null, start_in_seconds: null, done_in_seconds: null };

test("how long it takes, as roughly as it is known", () => {
  for (const [p50, p90, text] of [
    ["0.1", "0.4", "at once"], ["0.2", "1", "within 1 s"], ["4.2", "8", "in about 4–8 s"], ["6", "5.5", "in about 6 s"],
    ["70", "119.5", "in about 70–120 s"], ["90", "200", "in about 2–4 min"], ["0", "130", "within 3 min"],
  ] as const) {
    assert.equal(within(range(p50, p90)), text);
  }
});

test("what it waits for, and for how long", () => {
  assert.equal(waitingFor(undefined, false), "Making the audio");
  assert.equal(waitingFor(undefined, true), "Waiting for another attempt");
  assert.equal(waitingFor({ ...nothing, waiting_on: "capacity" }, false), "Waiting for a free worker");
  assert.equal(forecast(undefined), "");
  assert.equal(forecast(nothing), "");
  assert.equal(
    forecast({ waiting_on: "capacity", position: "1" as Decimal, start_in_seconds: range("2", "5"), done_in_seconds: range("4", "9") }),
    "next in line, begins in about 2–5 s, done in about 4–9 s");
  assert.equal(forecast({ ...nothing, position: "1204" as Decimal }), "number 1,204 in line");
});

test("what happened to it", () => {
  const at = "2026-11-20T23:10:32.123Z";
  assert.equal(happened({ type: "attempt", at, number: "2" as Decimal, ended_at: null, outcome: "interrupted", message: null }), "Attempt 2 was interrupted");
  assert.equal(happened({ type: "failed", at, code: "internal_error", message: "x" }), "Failed");
});

test("how it ended, to be read out", () => {
  assert.equal(ending({ status: "succeeded", usage: { credits: "10.5" as Decimal } }), "Ready. Charged 10.5 credits.");
  assert.equal(ending({ status: "succeeded", usage: null }), "Ready.");
  assert.equal(ending({ status: "failed", usage: null }), "Failed. The reservation was returned.");
  assert.equal(ending({ status: "canceled", usage: null }), "Canceled. The reservation was returned.");
});
