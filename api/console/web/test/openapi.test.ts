import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { readDescription } from "../src/lib/openapi";
import { paragraphs, spans } from "../src/lib/prose";

const small = {
  info: { title: "T", version: "1", description: "Of *all*." },
  servers: [{ url: "/api/v1" }],
  security: [{ key: [] }],
  tags: [{ name: "A", description: "a" }, { name: "Empty" }],
  paths: {
    "/things/{id}": {
      get: {
        operationId: "getThing", tags: ["A"], summary: "Get", security: [],
        parameters: [{ $ref: "#/components/parameters/Id" }],
        responses: { 200: { $ref: "#/components/responses/Thing" } },
      },
    },
  },
  components: {
    parameters: { Id: { name: "id", in: "path", required: true, schema: { type: "string" }, example: "t1", description: "Which." } },
    responses: { Thing: { description: "It.", content: { "application/json": { schema: { $ref: "#/components/schemas/Thing" } } } } },
    schemas: {
      Thing: {
        type: "object", required: ["size"],
        properties: {
          size: { type: "number", minimum: 0.5, maximum: 2, default: 1, description: "How big." },
          parts: { type: "array", items: { $ref: "#/components/schemas/Thing" } },
          kind: { anyOf: [{ type: "string", enum: ["x", "y"] }, { type: "null" }] },
        },
      },
    },
  },
};

test("an operation with what it needs and answers; circles end", () => {
  const read = readDescription(small);
  assert.deepEqual(read.sections.map((section) => section.name), ["A"]);
  const operation = read.sections[0]?.operations[0];
  assert.equal(operation?.needsKey, false);
  assert.deepEqual(operation?.parameters, [{ name: "id", place: "path", required: true, type: "string", text: "Which.", choices: [], example: "t1" }]);
  const members = operation?.replies[0]?.members ?? [];
  assert.deepEqual(members[0], { name: "size", depth: 0, required: true, type: "number", text: "How big. 0.5 to 2. Default `1`." });
  assert.deepEqual(members.find((member) => member.name === "kind")?.type, "string or null");
  assert.equal(members.find((member) => member.name === "parts")?.type, "array of object");
  assert.equal(Math.max(...members.map((member) => member.depth)), 3);
});

test("anything at all can be read", () => {
  for (const document of [null, 1, [], {}, { paths: { "/x": null }, tags: [null] }]) {
    assert.deepEqual(readDescription(document).sections, []);
  }
});

const published = process.env["OPENAPI"];
test("the published description, every operation of it", { skip: published === undefined }, () => {
  const document = JSON.parse(readFileSync(published ?? "", "utf8")) as { paths: Record<string, object> };
  const shown = readDescription(document).sections.flatMap((section) => section.operations);
  const count = Object.values(document.paths).reduce((sum, item) => sum + Object.keys(item).length, 0);
  assert.equal(shown.length, count);
  for (const operation of shown) {
    assert.notEqual(operation.summary, "");
    assert.ok(operation.replies.length > 0);
    for (const member of [...operation.body, ...operation.replies.flatMap((reply) => reply.members)]) {
      assert.notEqual(member.type, "", `${operation.id} ${member.name}`);
    }
  }
});

test("prose is paragraphs of text, code and strong text, never markup", () => {
  assert.deepEqual(spans("a `b` **c** <i>d</i>"), [
    { kind: "text", text: "a " }, { kind: "code", text: "b" }, { kind: "text", text: " " },
    { kind: "strong", text: "c" }, { kind: "text", text: " <i>d</i>" },
  ]);
  assert.equal(paragraphs("a\n\n\nb").length, 2);
});
