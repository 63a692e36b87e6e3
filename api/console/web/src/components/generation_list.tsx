import type { ComponentChildren } from "preact";
import type { ListedGeneration } from "../api/types";
import { grouped } from "../lib/decimal";
import { pathOf } from "../lib/path";
import { excerpt } from "../lib/text";
import { duration } from "../lib/time";
import { StatusBadge, Time } from "./basics";

/** One generation in a list: what was asked for, how it went, what it cost. */
export function GenerationRow({ generation, actions, chosen = false }: {
  generation: ListedGeneration; actions?: ComponentChildren; chosen?: boolean;
}) {
  const { output, usage, prompt } = generation;
  return (
    <li class={chosen ? "row chosen" : "row"}>
      <a class="row-main" href={pathOf({ name: "generation", id: generation.id })} dir="auto" aria-current={chosen ? "true" : undefined}>
        {prompt === null ? <em class="muted">Deleted: the text and the audio are gone</em> : excerpt(prompt, 240)}
      </a>
      <span class="row-status"><StatusBadge status={generation.status} /></span>
      <span class="row-facts">
        {output === null ? null : <span>{duration(output.duration_seconds)}</span>}
        {usage === null ? null : <span><span class="amount">{grouped(usage.credits)}</span> credits</span>}
        <Time at={generation.created_at} />
      </span>
      {actions === undefined ? null : <span class="row-actions">{actions}</span>}
    </li>
  );
}
