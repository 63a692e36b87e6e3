import assert from "node:assert/strict";
import { test } from "node:test";
import { allowedAgain, heldUntil, leavesOpen, retryDelay } from "../src/lib/retry";
import type { Refused } from "../src/api/failure";

const refused = (status: number, retryAfter?: number): Refused => ({
  kind: "refused", status, code: "x", message: "x", requestId: "r", ...(retryAfter === undefined ? {} : { retryAfter }),
});

test("asks again where that helps, later every time, not before it is told", () => {
  assert.equal(retryDelay({ kind: "offline" }, 0), 1);
  assert.equal(retryDelay({ kind: "offline" }, 3), 8);
  assert.equal(retryDelay({ kind: "offline" }, 20), 30);
  assert.equal(retryDelay(refused(503), 1), 2);
  assert.equal(retryDelay(refused(429, 12), 0), 12);
  assert.equal(retryDelay(refused(429, 1), 2), 4);
  assert.equal(retryDelay({ kind: "broken", status: 502, requestId: "" }, 1), 2);
});

test("does not where it changes nothing", () => {
  for (const status of [400, 401, 402, 403, 404, 409]) {
    assert.equal(retryDelay(refused(status, 1), 0), undefined);
  }
  assert.equal(retryDelay({ kind: "broken", status: 200, requestId: "" }, 0), undefined);
});

test("nor by itself after more than a minute: whoever wanted it may not want it any more", () => {
  for (const status of [429, 503]) {
    assert.equal(retryDelay(refused(status, 60), 0), 60);
    assert.equal(retryDelay(refused(status, 61), 0), undefined);
    assert.equal(heldUntil(refused(status, 60), 1000), 61_000);
    assert.equal(heldUntil(refused(status, 61), 1000), undefined);
  }
  assert.equal(heldUntil(refused(503), 1000), undefined);
});

test("only the service's own word says that nothing was done", () => {
  assert.ok(leavesOpen({ kind: "offline" }));
  assert.ok(leavesOpen({ kind: "broken", status: 200, requestId: "" }));
  assert.ok(leavesOpen(refused(503, 1)));
  assert.ok(leavesOpen(refused(500)));
  assert.ok(!leavesOpen(refused(503, 3600)));
  for (const status of [400, 401, 402, 403, 409, 429]) {
    assert.ok(!leavesOpen(refused(status, 1)));
  }
});

test("a person is told when a refusal for being too frequent, or of a busy service, is over", () => {
  assert.equal(allowedAgain(refused(429, 12), 1000), 13_000);
  assert.equal(allowedAgain(refused(429), 1000), undefined);
  assert.equal(allowedAgain(refused(503, 12), 1000), 13_000);
  assert.equal(allowedAgain(refused(503), 1000), undefined);
  assert.equal(allowedAgain(refused(409, 12), 1000), undefined);
  assert.equal(allowedAgain({ kind: "offline" }, 1000), undefined);
});
