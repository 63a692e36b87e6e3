import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { type RequestBody } from "../lib/draft";
import { keyVariable, type Language, languages, snippet } from "../lib/snippets";
import { Choice, CopyButton } from "./basics";

/** Where programs reach the same API: this host, with a key. */
export const apiBase = `${window.location.origin}/api/v1`;

export function CodeBlock({ text, label }: { text: string; label: string }) {
  return <pre class="code" tabIndex={0} role="region" aria-label={label}><code>{text}</code></pre>;
}

/** The same request for a program. The key stays masked: its variable's name stands in its place. */
export function CopyAs({ body }: { body: RequestBody }) {
  const language = useSignal<Language>(languages[0]);
  const intention = useMemo(() => crypto.randomUUID(), [JSON.stringify(body)]);
  const text = snippet(language.value, apiBase, body, intention);
  return (
    <div class="copy-as">
      <div class="copy-as-head">
        <Choice
          label="Copy as" value={language.value} options={languages.map((name) => [name, name] as const)}
          onChange={(value) => {
            language.value = value;
          }}
        />
        <CopyButton text={text} label={`Copy ${language.value}`} />
      </div>
      <CodeBlock text={text} label={`Request in ${language.value}`} />
      <p class="hint">Reads the key from the environment: <code>export {keyVariable}=…</code></p>
    </div>
  );
}
