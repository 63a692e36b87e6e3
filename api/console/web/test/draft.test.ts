import assert from "node:assert/strict";
import { test } from "node:test";
import { draftFrom, emptyDraft, problemsOf, requestOf } from "../src/lib/draft";

const model = "svc-audio-1.0";

test("what is at its default is not sent", () => {
  assert.deepEqual(requestOf({ ...emptyDraft, prompt: "Hello." }, model), { model, prompt: "Hello." });
});

test("everything else is, as numbers", () => {
  const full = {
    ...emptyDraft, prompt: " a ", voice: "sage", format: "wav" as const, rate: "48000", speed: "0.9", volume: "1.20", pitch: "-1.5",
    maxCredits: "18.75", audioReferences: [" https://example.com/a.mp3 ", "", ""],
  };
  assert.deepEqual(requestOf(full, model), {
    model, prompt: " a ", voice: "sage", output_format: "wav", sample_rate: 48000, speed: 0.9, volume: 1.2, pitch: -1.5,
    max_credits: 18.75, audio_references: ["https://example.com/a.mp3"],
  });
});

test("problems are told before the service is asked", () => {
  assert.deepEqual(problemsOf({ ...emptyDraft, prompt: "a" }, 2048), {});
  assert.ok(problemsOf({ ...emptyDraft, prompt: " \n" }, 2048).prompt);
  assert.deepEqual(problemsOf({ ...emptyDraft, prompt: "𝄞".repeat(2048) }, 2048), {});
  assert.equal(problemsOf({ ...emptyDraft, prompt: "a".repeat(2050) }, 2048).prompt, "2 characters too many.");
  for (const bad of ["0.49", "2.01", "fast", "", " "]) {
    assert.ok(problemsOf({ ...emptyDraft, prompt: "a", speed: bad }, 2048).speed, bad);
  }
  assert.ok(problemsOf({ ...emptyDraft, prompt: "a", maxCredits: "9" }, 2048).maxCredits);
  assert.ok(problemsOf({ ...emptyDraft, prompt: "a", imageUrl: "https://a.example/x", audioReferences: ["https://a.example/y", "", ""] }, 2048).imageUrl);
});

test("a draft that was kept is believed only where it fits", () => {
  assert.deepEqual(draftFrom(undefined), emptyDraft);
  assert.deepEqual(draftFrom("x"), emptyDraft);
  assert.deepEqual(draftFrom({ prompt: "a", speed: 2, audioReferences: ["x"], other: "y" }), { ...emptyDraft, prompt: "a" });
});
