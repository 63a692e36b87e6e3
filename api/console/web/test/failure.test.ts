import assert from "node:assert/strict";
import { test } from "node:test";
import { sentence } from "../src/api/failure";

const said = (status: number, message: string) =>
  sentence({ kind: "refused", status, code: "x", message, requestId: "r" });

test("what the service gives as its reason is told as it says it", () => {
  for (const [status, text] of [
    [402, "At least 150 credits are required to create a generation."],
    [429, "There are 20 generations that have not ended, as many as the plan allows; wait until some have, or cancel some."],
    [503, "So many of your generations are waiting that a further one would not end in time."],
  ] as const) {
    assert.equal(said(status, text), text);
  }
});

test("without a reason the seconds are left to the countdown", () => {
  assert.equal(said(429, "Requests are too frequent; send the next one in 12 s."), "Too many requests just now.");
  assert.equal(said(503, "The service is temporarily unavailable; send the request again."), "The service is busy or being restarted.");
});
