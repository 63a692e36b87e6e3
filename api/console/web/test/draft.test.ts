import assert from "node:assert/strict";
import { test } from "node:test";
import type { AskedFor } from "../src/api/types";
import type { Decimal } from "../src/lib/decimal";
import { draftFrom, emptyDraft, problemsOf, requestFrom, requestOf } from "../src/lib/draft";

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

test("what was asked for is the same request again, but for the references", () => {
  const number = (text: string) => text as Decimal;
  const asked: AskedFor = {
    prompt: "a", voice: null, output_format: "mp3", sample_rate: number("24000"), speed: number("1"), volume: number("1.0"), pitch: number("0"),
    max_credits: number("150"), metadata: {}, references: [{ param: "image_url", kind: "image" }],
  };
  assert.deepEqual(requestFrom(asked, model), { model, prompt: "a" });
  assert.deepEqual(
    requestFrom({ ...asked, voice: "sage", output_format: "wav", sample_rate: number("48000"), pitch: number("-1.5"), max_credits: number("18.75"), metadata: { order: "4711" } }, model),
    { model, prompt: "a", voice: "sage", output_format: "wav", sample_rate: 48000, pitch: -1.5, max_credits: 18.75, metadata: { order: "4711" } });
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
