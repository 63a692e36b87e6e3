import { useSignal } from "@preact/signals";
import { useEffect, useId, useRef } from "preact/hooks";
import type { Voice } from "../api/types";
import { announce } from "../state/announce";
import { Icon } from "./icons";

type Card = Pick<Voice, "id" | "name" | "languages" | "description"> & { preview_url?: string | null };
const whichever: Card = { id: "", name: "Any", languages: [], description: "The service chooses." };

/** The preset voices as cards of which one is chosen; each can be heard first, where there is a sample of it. */
export function VoiceCards({ voices, chosen, onChoose }: {
  voices: readonly Voice[]; chosen: string; onChoose: (id: string) => void;
}) {
  const name = useId();
  const audio = useRef<HTMLAudioElement>(null);
  const playing = useSignal<string | undefined>(undefined);
  const lost = useSignal<string | undefined>(undefined);
  useEffect(() => {
    const player = audio.current;
    return () => player?.pause();  // One that is taken off the page plays on.
  }, []);
  const play = (voice: Card) => {
    const player = audio.current;
    if (player === null || typeof voice.preview_url !== "string") {
      return;
    }
    lost.value = undefined;
    if (playing.value === voice.id) {
      player.pause();
      return;
    }
    playing.value = voice.id;
    player.src = voice.preview_url;
    player.play().catch((thrown: unknown) => {
      // Another one that was begun meanwhile is no failure.
      if (playing.peek() === voice.id && !(thrown instanceof DOMException && thrown.name === "AbortError")) {
        playing.value = undefined;
        lost.value = `The sample of ${voice.name} could not be played.`;
        announce(lost.value);
      }
    });
  };
  return (
    <fieldset class="voices">
      <legend>Voice</legend>
      <div class="voice-grid">
        {[whichever, ...voices].map((voice) => (
          <div key={voice.id} class="voice">
            <label>
              <input type="radio" name={name} checked={voice.id === chosen} onChange={() => onChoose(voice.id)} />
              <span class="voice-card">
                <span class="voice-name">{voice.name}</span>
                <span class="voice-text">
                  {voice.languages.length === 0 ? null : <span class="voice-language">{voice.languages.join(", ")} </span>}
                  {voice.description}
                </span>
              </span>
            </label>
            {voice.id === "" ? null : <Listen voice={voice} playing={playing.value === voice.id} onClick={() => play(voice)} />}
          </div>
        ))}
      </div>
      {lost.value === undefined ? null : <p class="problem">{lost.value}</p>}
      <audio
        ref={audio} preload="none"
        onPause={() => { playing.value = undefined; }} onEnded={() => { playing.value = undefined; }}
      />
    </fieldset>
  );
}

function Listen({ voice, playing, onClick }: { voice: Card; playing: boolean; onClick: () => void }) {
  const none = typeof voice.preview_url !== "string";
  const label = none ? `No sample of ${voice.name}` : playing ? `Stop the sample of ${voice.name}` : `Hear ${voice.name}`;
  return (
    <button type="button" class="icon-button voice-listen" aria-label={label} title={label} disabled={none} onClick={onClick}>
      <Icon name={playing ? "stop" : "play"} />
    </button>
  );
}
