import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeBase64url, encodeBase64url } from "../src/lib/base64url";

test("bytes of every length and value come back, without padding", () => {
  for (const bytes of [[], [0], [255, 254], [251, 255, 190], [...Array(256).keys()]]) {
    const text = encodeBase64url(Uint8Array.from(bytes));
    assert.match(text, /^[A-Za-z0-9_-]*$/);
    assert.deepEqual([...decodeBase64url(text)], bytes);
  }
  assert.equal(encodeBase64url(Uint8Array.from([251, 255])), "-_8");
});
