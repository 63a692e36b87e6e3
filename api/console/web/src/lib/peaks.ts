/** The loudest sample of each of `count` equal stretches, 0 to 1 of the loudest of all. */
export function peaks(samples: Float32Array, count: number): number[] {
  const out = new Array<number>(count).fill(0);
  for (let index = 0; index < samples.length; index += 1) {
    const at = Math.floor((index * count) / samples.length);
    const level = Math.abs(samples[index] ?? 0);
    if (level > (out[at] ?? 0)) {
      out[at] = level;
    }
  }
  const loudest = Math.max(...out, 0);
  return loudest === 0 ? out : out.map((level) => level / loudest);
}

/** Signed 16-bit little-endian samples, as `pcm` delivers them. */
export function samplesOfPcm(bytes: ArrayBuffer): Float32Array {
  const view = new DataView(bytes, 0, bytes.byteLength - (bytes.byteLength % 2));
  return Float32Array.from({ length: view.byteLength / 2 }, (_, index) => view.getInt16(index * 2, true) / 32768);
}
