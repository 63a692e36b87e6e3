import assert from "node:assert/strict";
import { test } from "node:test";
import { EventStream } from "../src/lib/event_stream";

const text = "retry: 3000\n\nid: 1\nevent: status\ndata: {\"a\":1}\n\n: still there\n\nevent: progress\ndata: x\ndata:y\n\n";
const expected = [
  { type: "status", data: "{\"a\":1}", id: "1" },
  { type: "progress", data: "x\ny", id: "1" },
];

test("events come out whole, however the text is cut and its lines end", () => {
  for (const end of ["\n", "\r\n", "\r"]) {
    const sent = text.replaceAll("\n", end);
    for (let size = 1; size <= sent.length; size += 1) {
      const stream = new EventStream();
      const got = [];
      for (let at = 0; at < sent.length; at += size) {
        got.push(...stream.take(sent.slice(at, at + size)));
      }
      // A lone carriage return at the very end may be half of a line end: the next piece tells.
      assert.deepEqual(got, expected, `${JSON.stringify(end)} ${size}`);
      assert.equal(stream.lastId, "1");
    }
  }
});

test("what is no event is none", () => {
  const stream = new EventStream();
  assert.deepEqual(stream.take(":\n\nevent: status\n\nid: 7\n\nfoo\n\n"), []);
  assert.equal(stream.lastId, "7");
  assert.deepEqual(stream.take("data\n\n"), [{ type: "message", data: "", id: "7" }]);
  assert.deepEqual(stream.take("data: half"), []);
  assert.deepEqual(stream.take("id: a\0b\ndata: 2\n\n")[0]?.id, "7");
});
