// The draft and the one generation that the playground is about. Both outlive a change of page, and in
// this tab a reload.
import { effect, signal } from "@preact/signals";
import { generations } from "../api/calls";
import { type Failure, failureOf } from "../api/failure";
import { type Generation, isOpen, type Progress } from "../api/types";
import { type Draft, draftFrom, emptyDraft, type RequestBody } from "../lib/draft";
import { ending } from "../lib/progress";
import { heldUntil, leavesOpen, retryDelay } from "../lib/retry";
import { announce } from "./announce";
import { follow, type Trouble } from "./follow";
import { pause } from "./pause";
import { signedInAgain } from "./session";
import { forget, recall, remember } from "./storage";

export interface Run {
  body: RequestBody;
  key: string;  // Idempotency-Key: however often this is sent, it is one generation.
  startedAt: number;
  unanswered?: boolean;  // A send under this key ended without the service's word: it may have been accepted.
  id?: string;
  generation?: Generation;
  progress?: Progress | undefined;
  trouble?: Trouble | undefined;  // While it is not over: tried again by itself.
  refused?: Failure;  // It never became a generation; with an id: it is not to be had any more.
  allowedAt?: number | undefined;  // When the service takes another one, where it said so and it is soon.
}

const startDraft = draftFrom(recall("tab", "draft"));
export const draft = signal<Draft>(startDraft);
export const run = signal<Run | undefined>(undefined);

let stopRunning = new AbortController();

/** A second press so soon for the same is the other half of a double click. */
const doubleClick = 1000;

export function isUnderWay(current: Run | undefined): boolean {
  return current !== undefined && current.refused === undefined &&
    (current.generation === undefined || isOpen(current.generation));
}

/** It was refused in the end, which says nothing of an earlier send of the same. */
export function mayBeAccepted(current: Run): boolean {
  return current.id === undefined && current.unanswered === true;
}

/** The same again is the same intention, and goes under the same key, as long as nobody knows what became of it. */
export function submit(body: RequestBody): void {
  const before = run.peek();
  const now = Date.now();
  const same = before !== undefined && JSON.stringify(before.body) === JSON.stringify(body);
  if (isUnderWay(before) || (before !== undefined && ((same && now - before.startedAt < doubleClick) || now < (before.allowedAt ?? 0)))) {
    return;
  }
  const again = same && mayBeAccepted(before);
  begin(again ? { body, key: before.key, startedAt: now, unanswered: true } : { body, key: crypto.randomUUID(), startedAt: now });
}

/** The form as the request of a generation was, for another try. */
export function fillDraft(body: RequestBody): void {
  const references = body.audio_references ?? [];
  draft.value = {
    ...emptyDraft,
    prompt: body.prompt,
    voice: body.voice ?? emptyDraft.voice,
    format: (body.output_format as Draft["format"] | undefined) ?? emptyDraft.format,
    rate: String(body.sample_rate ?? emptyDraft.rate),
    speed: String(body.speed ?? emptyDraft.speed),
    volume: String(body.volume ?? emptyDraft.volume),
    pitch: String(body.pitch ?? emptyDraft.pitch),
    maxCredits: String(body.max_credits ?? emptyDraft.maxCredits),
    audioReferences: emptyDraft.audioReferences.map((none, index) => references[index] ?? none),
    imageUrl: body.image_url ?? emptyDraft.imageUrl,
  };
}

/** The cancel that was answered, or any newer state that somebody else has read. */
export function updateRun(generation: Generation): void {
  if (run.peek()?.id === generation.id) {
    change({ generation });
  }
}

/** What this tab made the generation with, the addresses of its references too, which the service tells nobody again. */
export function settingsOf(id: string): RequestBody | undefined {
  return settings()[id];
}

export function forgetSettings(id: string): void {
  const { [id]: gone, ...rest } = settings();
  if (gone !== undefined) {
    remember("tab", "settings", rest);
  }
  if (run.peek()?.id === id) {
    clearRun();
  }
}

export function clearRun(): void {
  stopRunning.abort();
  run.value = undefined;
  forget("tab", "run");
}

/** At the start of the pages: what a reload interrupted goes on. */
export function resume(): void {
  const kept = recall("tab", "run") as Run | undefined;
  if (kept !== undefined && typeof kept.key === "string" && run.peek() === undefined) {
    begin(kept.id === undefined ? { ...kept, unanswered: true } : kept);
  }
}

function begin(next: Run): void {
  stopRunning.abort();
  stopRunning = new AbortController();
  run.value = next;
  keep();
  void carryOut(stopRunning.signal);
}

async function carryOut(signal: AbortSignal): Promise<void> {
  let current = run.peek();
  if (current !== undefined && current.id === undefined) {
    await send(current, signal);
  }
  current = run.peek();
  if (!signal.aborted && current?.id !== undefined) {
    const end = await follow(current.id, {
      update: updateFollowed,
      progress: (progress) => change({ progress }),
      trouble: (trouble) => change({ trouble }),
    }, signal);
    if (end !== undefined) {
      refusedWith(end);
    }
  }
}

function updateFollowed(generation: Generation): void {
  const before = run.peek()?.generation?.status;
  change({ generation });
  if (generation.status !== before && !isOpen(generation)) {
    announce(ending(generation));
  }
}

/**
 * Until the service has taken it or says why not, under one key. Whoever made too many, or has to wait for long, is told when
 * the next may be made, and makes it himself; what is only away or busy is asked again by itself.
 */
async function send(current: Run, signal: AbortSignal): Promise<void> {
  for (let attempt = 0; !signal.aborted; attempt += 1) {
    try {
      const generation = await generations.create(current.body, current.key);
      if (!signal.aborted) {
        accepted(current, generation);
      }
      return;
    } catch (thrown) {
      if (signal.aborted) {
        return;
      }
      const failure = failureOf(thrown);
      if (leavesOpen(failure)) {
        change({ unanswered: true });
      }
      const status = failure.kind === "refused" ? failure.status : undefined;
      const delay = status === 429 ? undefined : retryDelay(failure, attempt);
      if (status === 401) {
        await signedInAgain(signal);
      } else if (delay !== undefined) {
        change({ trouble: { failure, retryAt: Date.now() + delay * 1000 } });
        await pause(delay, signal);
      } else {
        refusedWith(failure);
        return;
      }
    }
  }
}

function accepted(current: Run, generation: Generation): void {
  remember("tab", "settings", Object.fromEntries(
    [...Object.entries(settings()), [generation.id, current.body]].slice(-50)));
  change({ id: generation.id, generation, trouble: undefined });
  announce("Accepted. Waiting for the audio.");
}

function refusedWith(failure: Failure): void {
  change({ refused: failure, trouble: undefined, allowedAt: heldUntil(failure, Date.now()) });
  const current = run.peek();
  if (current === undefined || !mayBeAccepted(current)) {
    forget("tab", "run");
  }
}

function change(changes: Partial<Run>): void {
  const current = run.peek();
  if (current !== undefined) {
    run.value = { ...current, ...changes };
    keep();
  }
}

/** Without what is asked for again anyway. */
function keep(): void {
  const current = run.peek();
  if (current !== undefined) {
    const { body, key, startedAt, unanswered, id } = current;
    remember("tab", "run", { body, key, startedAt, unanswered, id });
  }
}

function settings(): Record<string, RequestBody> {
  return (recall("tab", "settings") as Record<string, RequestBody> | undefined) ?? {};
}

effect(() => {
  if (draft.value !== startDraft) {
    remember("tab", "draft", draft.value);
  }
});
