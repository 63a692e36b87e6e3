// What the form of the playground holds, and the request that it means.
import type { AskedFor, OutputFormat } from "../api/types";
import { codePoints } from "./text";

export interface Draft {
  prompt: string;
  voice: string;  // "": the service chooses.
  format: OutputFormat;
  rate: string;
  speed: string;
  volume: string;
  pitch: string;
  maxCredits: string;  // "": no cap of one's own.
  audioReferences: string[];
  imageUrl: string;
}

export const emptyDraft: Draft = {
  prompt: "", voice: "", format: "mp3", rate: "24000", speed: "1", volume: "1", pitch: "0",
  maxCredits: "", audioReferences: ["", "", ""], imageUrl: "",
};

export interface Range { min: number; max: number; step: number; unit: string }
/** What the published description allows. */
export const ranges = {
  speed: { min: 0.5, max: 2, step: 0.05, unit: "×" },
  volume: { min: 0.5, max: 2, step: 0.05, unit: "×" },
  pitch: { min: -12, max: 12, step: 0.5, unit: " semitones" },
} satisfies Record<string, Range>;
export const creditsCap: Range = { min: 10, max: 150, step: 1, unit: " credits" };

/** A creation's members in JSON; numbers as they were typed, so that no digit changes. */
export interface RequestBody {
  model: string;
  prompt: string;
  voice?: string;
  output_format?: string;
  sample_rate?: number;
  speed?: number;
  volume?: number;
  pitch?: number;
  max_credits?: number;
  audio_references?: string[];
  image_url?: string;
  metadata?: Record<string, string>;  // Of programs; the form has none.
}

/** The request of a draft; what is at its default is left out, as a person would write it. */
export function requestOf(draft: Draft, model: string): RequestBody {
  const body: RequestBody = { model, prompt: draft.prompt };
  if (draft.voice !== "") {
    body.voice = draft.voice;
  }
  if (draft.format !== emptyDraft.format) {
    body.output_format = draft.format;
  }
  if (draft.rate !== emptyDraft.rate) {
    body.sample_rate = Number(draft.rate);
  }
  for (const name of ["speed", "volume", "pitch"] as const) {
    if (draft[name] !== "" && Number(draft[name]) !== Number(emptyDraft[name])) {
      body[name] = Number(draft[name]);
    }
  }
  if (draft.maxCredits !== "") {
    body.max_credits = Number(draft.maxCredits);
  }
  const references = draft.audioReferences.map((url) => url.trim()).filter((url) => url !== "");
  if (references.length > 0) {
    body.audio_references = references;
  }
  if (draft.imageUrl.trim() !== "") {
    body.image_url = draft.imageUrl.trim();
  }
  return body;
}

/** What a generation was asked for as the same request again, without the references: nobody is told their addresses. */
export function requestFrom(asked: AskedFor, model: string): RequestBody {
  const draft: Draft = {
    ...emptyDraft,
    prompt: asked.prompt, voice: asked.voice ?? "", format: asked.output_format, rate: asked.sample_rate,
    speed: asked.speed, volume: asked.volume, pitch: asked.pitch,
    maxCredits: Number(asked.max_credits) === creditsCap.max ? "" : asked.max_credits,
  };
  const body = requestOf(draft, model);
  return Object.keys(asked.metadata).length === 0 ? body : { ...body, metadata: asked.metadata };
}

export type DraftProblems = Partial<Record<keyof Draft, string>>;

/** What the service would refuse, said before it is asked; by field. */
export function problemsOf(draft: Draft, promptLimit: number): DraftProblems {
  const problems: DraftProblems = {};
  const length = codePoints(draft.prompt);
  if (draft.prompt.trim() === "") {
    problems.prompt = "Write what should be heard.";
  } else if (length > promptLimit) {
    problems.prompt = `${length - promptLimit} characters too many.`;
  }
  for (const [name, range] of Object.entries(ranges) as [keyof typeof ranges, Range][]) {
    if (!inRange(draft[name], range)) {
      problems[name] = `From ${range.min} to ${range.max}.`.replace("-", "−");
    }
  }
  if (draft.maxCredits !== "" && !inRange(draft.maxCredits, creditsCap)) {
    problems.maxCredits = `From ${creditsCap.min} to ${creditsCap.max} credits, or empty.`;
  }
  if (draft.imageUrl.trim() !== "" && draft.audioReferences.some((url) => url.trim() !== "")) {
    problems.imageUrl = "An image cannot be combined with audio references.";
  }
  return problems;
}

function inRange(text: string, range: Range): boolean {
  const value = Number(text);
  return text.trim() !== "" && Number.isFinite(value) && value >= range.min && value <= range.max;
}

/** A draft as it was kept, whatever release of the pages kept it. */
export function draftFrom(kept: unknown): Draft {
  if (typeof kept !== "object" || kept === null) {
    return emptyDraft;
  }
  const draft: Record<string, unknown> = { ...emptyDraft };
  for (const [name, value] of Object.entries(kept)) {
    const known = draft[name];
    const fits = Array.isArray(known)
      ? Array.isArray(value) && value.length === known.length && value.every((item) => typeof item === "string")
      : typeof value === typeof known;
    if (name in draft && fits) {
      draft[name] = value;
    }
  }
  return draft as unknown as Draft;
}
