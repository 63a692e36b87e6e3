import { useId } from "preact/hooks";
import type { Voice } from "../api/types";

/** The preset voices as cards of which one is chosen. */
export function VoiceCards({ voices, chosen, onChoose }: {
  voices: readonly Voice[]; chosen: string; onChoose: (id: string) => void;
}) {
  const name = useId();
  const cards = [{ id: "", name: "Any", languages: [], description: "The service chooses." }, ...voices];
  return (
    <fieldset class="voices">
      <legend>Voice</legend>
      <div class="voice-grid">
        {cards.map((voice) => (
          <label key={voice.id} class="voice">
            <input type="radio" name={name} checked={voice.id === chosen} onChange={() => onChoose(voice.id)} />
            <span class="voice-card">
              <span class="voice-name">{voice.name}</span>
              {voice.languages.length === 0 ? null : <span class="voice-language">{voice.languages.join(", ")}</span>}
              <span class="voice-text">{voice.description}</span>
            </span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}
