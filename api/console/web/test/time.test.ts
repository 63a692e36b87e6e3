import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketLabel, dayEnd, dayStart, duration, isStale, lastBuckets, overlapHours, relative, remaining, waiting, within } from "../src/lib/time";

const now = Date.parse("2026-11-20T23:10:32Z");

test("relative times", () => {
  assert.equal(relative("2026-11-20T23:10:10Z", now), "just now");
  assert.equal(relative("2026-11-20T23:05:30Z", now), "5 min ago");
  assert.equal(relative("2026-11-20T20:00:00Z", now), "3 h ago");
  assert.equal(relative("2026-11-19T20:00:00Z", now), "1 day ago");
  assert.equal(relative("2026-12-20T23:10:32Z", now), "in 30 days");
  assert.equal(relative("2026-11-27T23:10:31Z", now), "in 7 days", "what was made to end in seven days, a second later");
  assert.equal(relative("2026-11-22T09:00:00Z", now), "in 1 day");
  assert.equal(relative("2026-11-21T23:09:00Z", now), "in 1 day", "and not in 24 h");
  assert.equal(relative("2026-11-20T23:12:00Z", now), "in 1 min");
});

test("a wait is told in seconds up to two minutes, then in whole minutes", () => {
  assert.deepEqual([1, 120, 121, 3000, 3541, 7500].map(waiting), ["1 s", "120 s", "3 min", "50 min", "1 h", "2 h 5 min"]);
});

test("buckets are whole, of UTC, and end with the running one", () => {
  assert.deepEqual(lastBuckets("day", 3, now), ["2026-11-18T00:00:00Z", "2026-11-19T00:00:00Z", "2026-11-20T00:00:00Z"]);
  assert.deepEqual(lastBuckets("hour", 2, now), ["2026-11-20T22:00:00Z", "2026-11-20T23:00:00Z"]);
  assert.equal(bucketLabel("2026-11-20T00:00:00Z", "day"), "20 Nov");
  assert.match(bucketLabel("2026-11-20T22:00:00Z", "hour"), /20 Nov.*22:00/);
});

test("an answer is old after five minutes, or when a day has begun, of UTC or of the reader", () => {
  const old = (then: string, seconds: number) => isStale(Date.parse(then), Date.parse(then) + seconds * 1000);
  assert.deepEqual([0, 299, 300, 301].map((seconds) => old("2026-11-20T12:00:00Z", seconds)), [false, false, false, true]);
  assert.deepEqual([29, 30].map((seconds) => old("2026-11-20T23:59:30Z", seconds)), [false, true]);
  assert.deepEqual([29, 30].map((seconds) => old("2026-11-21T04:59:30Z", seconds)), [false, true], "midnight in New York");
  assert.equal(old("2026-11-20T12:00:00Z", -86_400), true, "a clock that was set back");
});

test("days of a filter are the reader's, also when the clocks change", () => {
  assert.equal(dayStart("2026-11-20"), "2026-11-20T05:00:00Z");  // New York: see test.mjs.
  assert.equal(dayEnd("2026-11-20"), "2026-11-21T05:00:00Z");
  assert.equal(dayStart("2026-11-01"), "2026-11-01T04:00:00Z");
  assert.equal(dayEnd("2026-11-01"), "2026-11-02T05:00:00Z");
  assert.equal(dayStart("yesterday"), undefined);
  assert.equal(dayEnd(null), undefined);
});

test("what is left of an overlap", () => {
  assert.equal(remaining("2026-11-23T02:11:00Z", now), "2 days 3 h");
  assert.equal(remaining("2026-11-21T23:10:32Z", now), "1 day 0 h");
  assert.equal(remaining("2026-11-21T04:23:00Z", now), "5 h 12 min");
  assert.equal(remaining("2026-11-20T23:14:37Z", now), "4:05 min");
  assert.equal(remaining("2026-11-20T23:10:33Z", now), "0:01 min");
  assert.equal(remaining("2026-11-20T23:10:32Z", now), undefined);
});

test("hours of an overlap", () => {
  assert.equal(overlapHours("0"), 0);
  assert.equal(overlapHours(" 168 "), 168);
  for (const text of ["", "169", "1.5", "-1", "1e2", "many"]) {
    assert.equal(overlapHours(text), undefined, text);
  }
});

test("durations", () => {
  assert.equal(duration("1.724"), "1.724 s");
  assert.equal(duration("12.000"), "12 s");
  assert.equal(duration("0.500"), "0.5 s");
  assert.equal(duration("65"), "1:05 min");
  assert.equal(duration("3599.999"), "59:59 min");
  assert.equal(duration("3600"), "1 h 0 min");
  assert.equal(duration("4446000.000"), "1,235 h 0 min");
});

test("used within", () => {
  assert.equal(within(null, 1000, now), false);
  assert.equal(within("2026-11-20T22:10:32Z", 3600_000, now), true);
  assert.equal(within("2026-11-20T22:10:31Z", 3600_000, now), false);
});
