import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { attemptOf, firstValues, indented, isDestructive, isOfItsKey } from "../src/lib/attempt";
import { type Operation, readDescription } from "../src/lib/openapi";

const parameter = (name: string, place: string, required: boolean, example?: string) =>
  ({ name, place, required, type: "string", text: "", choices: [], ...(example === undefined ? {} : { example }) });
const operation: Operation = {
  id: "x", method: "POST", path: "/things/{id}", summary: "", text: "", needsKey: true, replies: [],
  parameters: [parameter("id", "path", true, "a b/c"), parameter("limit", "query", false, "5"), parameter("Idempotency-Key", "header", false, "y")],
  body: [{ name: "size", depth: 0, required: true, type: "number", text: "" }],
};

test("what must be there is filled in, and each form has a key of its own", () => {
  assert.deepEqual(firstValues(operation, () => "new"), { "path id": "a b/c", "query limit": "", "header Idempotency-Key": "new" });
});

test("a request is made of what was filled in", () => {
  const values = { "path id": "a b/c", "query limit": "7 & 8", "header Idempotency-Key": " k " };
  assert.deepEqual(attemptOf(operation, values, '{"size":1.50}'), {
    method: "POST", path: "/things/a%20b%2Fc?limit=7+%26+8", headers: { "Idempotency-Key": "k" }, body: '{"size":1.50}',
  });
  assert.deepEqual(Object.keys((attemptOf(operation, { "header Idempotency-Key": "ü" }, "{") as { problems: object }).problems), ["path id", "header Idempotency-Key", "body"]);
});

test("what cannot be taken back", () => {
  assert.equal(isDestructive(operation), false);
  assert.equal(isDestructive({ ...operation, method: "DELETE" }), true);
  assert.equal(isDestructive({ ...operation, path: "/audio/generations/{task_id}/cancel" }), true);
});

test("what is about the key that is sent needs one", () => {
  assert.equal(isOfItsKey(operation), false);
  assert.equal(isOfItsKey({ ...operation, method: "DELETE", path: "/account/keys/current" }), true);
});

test("JSON is shown with every digit that was sent", () => {
  assert.equal(indented('{"a":18.750,"b":[1,{"c":"x\\",{"}],"d":[ ],"e":{}}'), `{
  "a": 18.750,
  "b": [
    1,
    {
      "c": "x\\",{"
    }
  ],
  "d": [],
  "e": {}
}`);
  assert.equal(indented("start,end\r\n1, 2"), "start,end\r\n1, 2");
  assert.equal(indented('"a : b"'), '"a : b"');
});

const published = process.env["OPENAPI"];
test("every published operation can be sent as it is filled in", { skip: published === undefined }, () => {
  const document: unknown = JSON.parse(readFileSync(published ?? "", "utf8"));
  for (const shown of readDescription(document).sections.flatMap((section) => section.operations)) {
    const attempt = attemptOf(shown, firstValues(shown, () => "key"), shown.bodyExample ?? "");
    assert.ok("path" in attempt && !attempt.path.includes("{"), `${shown.id} ${JSON.stringify(attempt)}`);
  }
});
