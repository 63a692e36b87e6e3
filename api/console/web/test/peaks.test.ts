import assert from "node:assert/strict";
import { test } from "node:test";
import { peaks, samplesOfPcm } from "../src/lib/peaks";

test("peaks are the loudest of each stretch, of the loudest of all", () => {
  assert.deepEqual(peaks(Float32Array.of(0, 0.25, -0.5, 0.125), 2), [0.5, 1]);
  assert.deepEqual(peaks(new Float32Array(8), 2), [0, 0]);
  assert.deepEqual(peaks(new Float32Array(0), 2), [0, 0]);
});

test("samples of PCM; half a sample at the end is none", () => {
  const bytes = Uint8Array.of(0x00, 0x40, 0x00, 0x80, 0x7f).buffer;
  assert.deepEqual([...samplesOfPcm(bytes)], [0.5, -1]);
});
