// Answers of the API, with the members that the pages use; `schema/openapi.json` describes them all.
// Numbers are the text that the server wrote (src/lib/exact_json.ts).
import type { Decimal } from "../lib/decimal";
import type { UsageRow, Measure } from "../lib/usage";

export type Status = "queued" | "processing" | "succeeded" | "failed" | "canceled";
export type OutputFormat = "mp3" | "wav" | "pcm" | "ogg_opus";

export interface Output {
  url: string;
  duration_seconds: Decimal;
  format: OutputFormat;
  expires_at?: string;
  deleted_at?: string;
}

export interface Generation {
  id: string;
  model: string;
  status: Status;
  created_at: string;
  updated_at: string;
  output: Output | null;
  usage: { credits: Decimal } | null;
  billing: { reserved_credits: Decimal; charged_credits?: Decimal; returned_credits?: Decimal };
  error: { code: string; message: string; retriable: boolean } | null;
}
export interface ListedGeneration extends Generation {
  prompt: string | null;
}

export interface List<T> { data: T[]; has_more: boolean; next_cursor: string | null }

export interface Balance { available: Decimal; reserved: Decimal }
export interface Account {
  id: string;
  email: string;
  plan: "free" | "paid";
  api_access: boolean;
  credits: Balance;
  limits: { keys: Decimal };
}

export type Scope = "generate" | "manage";
export interface ApiKey {
  id: string;
  name: string;
  prefix: string;
  scopes: Scope[];
  expires_at: string | null;
  created_at: string;
  last_used_at: string | null;
}
export interface ApiKeyWithSecret extends ApiKey { key: string }
export interface NewApiKey { name: string; scopes: Scope[]; expires_at?: string }

export interface LedgerEntry {
  seq: Decimal;
  kind: "reservation" | "settlement" | "grant" | "clawback";
  available_change: Decimal;
  reserved_change: Decimal;
  charged_credits: Decimal;
  balance_after: Balance;
  generation_id: string | null;
  grant: { kind: string; reference: string } | null;
  created_at: string;
}

export interface Estimate {
  expected_credits: Decimal;
  min_credits: Decimal;
  max_credits: Decimal;
  seconds: { p10: Decimal; p90: Decimal };
}
export interface Voice { id: string; name: string; languages: string[]; description: string }
export interface Model {
  id: string;
  prompt_max_characters: Decimal;
  audio_references_max: Decimal;
  output_formats: OutputFormat[];
  sample_rates: Decimal[];
}
export interface Pricing {
  credits_per_minute: Decimal;
  min_credits: Decimal;
  max_credits: Decimal;
  reserved_credits: Decimal;
  failed_credits: Decimal;
  examples: { audio_seconds: Decimal; credits: Decimal }[];
}

export interface Usage { data: UsageRow[]; totals: Record<Measure, Decimal>; complete_to: string }

export interface Session {
  id: string;
  email: string;
  created_at: string;
  expires_at: string;
  has_password: boolean;
  fresh_until: string;
}
export interface ListedSession {
  id: string;
  created_at: string;
  last_seen_at: string;
  expires_at: string;
  user_agent: string;
  address: string;
  current: boolean;
}

export function isOpen(generation: Generation): boolean {
  return generation.status === "queued" || generation.status === "processing";
}
