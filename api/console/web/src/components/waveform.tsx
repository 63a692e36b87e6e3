import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { OutputFormat } from "../api/types";
import { peaks, samplesOfPcm } from "../lib/peaks";

const bars = 160;

async function load(url: string, format: OutputFormat, signal: AbortSignal): Promise<number[]> {
  const response = await fetch(url, { signal, credentials: "omit", referrerPolicy: "no-referrer" });
  if (!response.ok) {
    throw new Error(`HTTP ${response.status}`);
  }
  const bytes = await response.arrayBuffer();
  if (format === "pcm") {
    return peaks(samplesOfPcm(bytes), bars);
  }
  const audio = await new OfflineAudioContext(1, 1, 48_000).decodeAudioData(bytes);
  return peaks(audio.getChannelData(0), bars);
}

function draw(canvas: HTMLCanvasElement, levels: readonly number[], played: number): void {
  const context = canvas.getContext("2d");
  if (context === null) {
    return;
  }
  const scale = window.devicePixelRatio;
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = width * scale;
  canvas.height = height * scale;
  context.scale(scale, scale);
  const style = getComputedStyle(canvas);
  const step = width / levels.length;
  levels.forEach((level, index) => {
    const size = Math.max(2, level * (height - 4));
    context.fillStyle = (index + 0.5) / levels.length <= played ? style.accentColor : style.color;
    context.fillRect(index * step, (height - size) / 2, Math.max(1, step - 1), size);
  });
}

/**
 * The shape of a sound, drawn from its samples, which fills as it plays. Where the file may not be
 * read by a page (another host without CORS), or cannot be decoded, there is simply none. A press goes
 * to that place; the controls of the audio element do the same for everybody else.
 */
export function Waveform({ url, format, audio }: {
  url: string; format: OutputFormat; audio: RefObject<HTMLAudioElement>;
}) {
  const levels = useSignal<number[] | undefined>(undefined);
  const none = useSignal(false);
  const canvas = useRef<HTMLCanvasElement>(null);

  useEffect(() => {
    const loading = new AbortController();
    none.value = false;
    load(url, format, loading.signal).then(
      (loaded) => {
        levels.value = loaded;
      },
      () => {
        none.value = !loading.signal.aborted;
      });
    return () => loading.abort();
  }, [url, format]);

  useEffect(() => {
    const element = canvas.current;
    const known = levels.value;
    if (element === null || known === undefined) {
      return;
    }
    const player = audio.current;
    const redraw = () => {
      const length = player?.duration ?? Number.NaN;
      draw(element, known, player !== null && length > 0 ? player.currentTime / length : 0);
    };
    // The size changes with the page, the colours with the theme.
    const size = new ResizeObserver(redraw);
    size.observe(element);
    const theme = new MutationObserver(redraw);
    theme.observe(document.documentElement, { attributes: true });
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", redraw);
    player?.addEventListener("timeupdate", redraw);
    player?.addEventListener("seeked", redraw);
    return () => {
      size.disconnect();
      theme.disconnect();
      system.removeEventListener("change", redraw);
      player?.removeEventListener("timeupdate", redraw);
      player?.removeEventListener("seeked", redraw);
    };
  }, [levels.value]);

  const seek = (event: MouseEvent) => {
    const player = audio.current;
    const element = canvas.current;
    if (player !== null && element !== null && player.duration > 0) {
      player.currentTime = (event.offsetX / element.clientWidth) * player.duration;
    }
  };
  // Its place is kept while it is being read.
  return levels.value === undefined
    ? none.value ? null : <div class="waveform" /> : <canvas ref={canvas} class="waveform" aria-hidden="true" onClick={seek} />;
}
