import assert from "node:assert/strict";
import { test } from "node:test";
import { oneOf, pageOf, pathOf, query } from "../src/lib/path";

test("every page has an address and is found at it", () => {
  const pages = ["overview", "start", "playground", "history", "keys", "usage", "billing", "reference", "settings"] as const;
  for (const name of pages) {
    assert.deepEqual(pageOf(pathOf({ name })), { name });
  }
  const odd = { name: "generation", id: "a/b %?#é" } as const;
  assert.deepEqual(pageOf(pathOf(odd)), odd);
});

test("with a slash at the end it is the same page", () => {
  assert.deepEqual(pageOf("/console"), { name: "overview" });
  assert.deepEqual(pageOf("/console/keys/"), { name: "keys" });
});

test("what is no page is missing, and a broken escape breaks nothing", () => {
  for (const path of ["/console/nothing", "/console/keys/1", "/console/generations", "/console/generations/", "/console/generations/a/b", "/elsewhere"]) {
    assert.deepEqual(pageOf(path), { name: "missing" });
  }
  assert.deepEqual(pageOf("/console/generations/%zz"), { name: "generation", id: "%zz" });
});

test("queries leave out what has no value", () => {
  assert.equal(query({}), "");
  assert.equal(query({ status: undefined, cursor: "" }), "");
  assert.equal(query({ limit: "20", cursor: "a+b=" }), "?limit=20&cursor=a%2Bb%3D");
});

test("a value of an address is one of those allowed", () => {
  assert.equal(oneOf("hour", ["day", "hour"]), "hour");
  assert.equal(oneOf("week", ["day", "hour"]), "day");
  assert.equal(oneOf(null, ["day", "hour"]), "day");
});
