import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Generation, Output } from "../api/types";
import { absolute, duration } from "../lib/time";
import { Button } from "./basics";
import { Icon } from "./icons";
import { Notice } from "./states";
import { Waveform } from "./waveform";

const endings = { mp3: "mp3", wav: "wav", pcm: "pcm", ogg_opus: "ogg" } as const;

/** The finished audio: shape, controls, file. `onStale` gets a newer address of it. */
export function Player({ generation, output, onStale }: {
  generation: Generation; output: Output; onStale: () => void;
}) {
  const audio = useRef<HTMLAudioElement>(null);
  const lost = useSignal(false);
  if (output.deleted_at !== undefined) {
    return <Notice>The audio was deleted on {absolute(output.deleted_at)}. What it cost stays on the books.</Notice>;
  }
  const retry = () => {
    lost.value = false;
    onStale();
  };
  return (
    <div class="player">
      <Waveform url={output.url} format={output.format} audio={audio} />
      {output.format === "pcm"
        ? <p class="hint">Raw samples have no header, so browsers do not play them: signed 16-bit, little-endian, mono.</p>
        : (
          <audio
            ref={audio} controls preload="metadata" src={output.url} aria-label="Generated audio"
            onError={() => {
              lost.value = true;
            }}
          />
        )}
      {lost.value ? (
        <Notice look="bad">
          <p>The audio could not be played.</p>
          <Button icon="repeat" onClick={retry}>Retry</Button>
        </Notice>
      ) : null}
      <p class="player-foot">
        {/* A file of another origin (a CDN) is shown instead of downloaded: not in place of this page. */}
        <a class="button plain" target="_blank" href={output.url} download={`${generation.id}.${endings[output.format]}`} rel="noreferrer">
          <Icon name="download" /><span>Download {output.format}</span>
        </a>
        <span class="muted">{duration(output.duration_seconds)}</span>
        {output.expires_at === undefined ? null : <span class="muted">kept until {absolute(output.expires_at)}</span>}
      </p>
    </div>
  );
}
