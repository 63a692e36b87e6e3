// Answers of the API, with the members that the pages use; `schema/openapi.json` describes them all.
// Numbers are the text that the server wrote (src/lib/exact_json.ts).
import type { Decimal } from "../lib/decimal";
import type { Period, SpendLimit } from "../lib/spend";
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

/** Seconds: half of all are done sooner than p50, nine in ten sooner than p90. */
export interface Range { p50: Decimal; p90: Decimal }

/** Why a generation is not final yet; nothing but nulls once it is. */
export interface Progress {
  waiting_on: "capacity" | "provider" | "retry" | "reference" | null;
  position: Decimal | null;  // 1 is next.
  start_in_seconds: Range | null;
  done_in_seconds: Range | null;
}

export type TimelineItem =
  | { type: "created" | "succeeded" | "canceled" | "deleted"; at: string }
  | { type: "failed"; at: string; code: string; message: string }
  | {
    type: "attempt"; at: string; number: Decimal; ended_at: string | null; message: string | null;
    outcome: "running" | "succeeded" | "failed" | "interrupted" | "not_begun";
  };

/** What was asked for. Addresses of references are told to nobody again: they may hold secrets. */
export interface AskedFor {
  prompt: string;
  voice: string | null;
  output_format: OutputFormat;
  sample_rate: Decimal;
  speed: Decimal;
  volume: Decimal;
  pitch: Decimal;
  max_credits: Decimal;
  metadata: Record<string, string>;
  references: { param: string; kind: "audio" | "image" }[];
}

export interface Details extends Progress {
  id: string;
  status: Status;
  request: AskedFor | null;  // Null: it was deleted.
  key_id: string | null;
  settled_by: string | null;
  attempts: Decimal;
  timeline: TimelineItem[];
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
  previous_key_expires_at: string | null;
  spend_limit: SpendLimit | null;
  spent_credits: Decimal | null;
  created_at: string;
  last_used_at: string | null;
}
export interface NewSpendLimit { credits: number; period: Period }
export interface ApiKeyWithSecret extends ApiKey { key: string }
export interface NewApiKey { name: string; scopes: Scope[]; expires_at?: string; spend_limit?: NewSpendLimit }

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
  start_in_seconds: Range | null;
}
export interface Voice { id: string; name: string; languages: string[]; description: string; preview_url: string | null }
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

/** What a sign-in is answered with. */
export interface OpenedSession {
  id: string;
  account: string;
  email: string;
  created_at: string;
  expires_at: string;
}
export interface Session extends OpenedSession {
  has_password: boolean;
  fresh_until: string;
}
/** What the sign-in page may offer. */
export interface SignInWays {
  mail: boolean;
  sign_up: "closed" | "invite" | "open";
  oidc: boolean;
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

export interface Passkey {
  id: string;
  name: string;
  synced: boolean;
  created_at: string;
  last_used_at: string | null;
}
export interface Challenge { challenge: string; rp_id: string }
export interface Invitation extends Challenge { user_handle: string; user_name: string; exclude: string[] }

/** Who signs this account in by OpenID Connect. What it says is text of another host. */
export interface LinkedIssuer {
  id: string;
  issuer: string | null;  // Null: linked before it was kept, and not used since.
  email: string | null;  // Of whom it named last; null: it has verified none.
  linked_at: string;
  last_used_at: string | null;
}

export function isOpen(generation: Generation): boolean {
  return generation.status === "queued" || generation.status === "processing";
}
