// Every question the pages ask, by name.
import type { RequestBody } from "../lib/draft";
import { query } from "../lib/path";
import type { Bucket } from "../lib/time";
import { ask, read, readCsv, stream, type StreamOptions } from "./client";
import type {
  Account, ApiKey, ApiKeyWithSecret, Challenge, Details, Estimate, Generation, Invitation, LedgerEntry, LinkedIssuer, List,
  ListedGeneration, ListedSession, Model, NewApiKey, NewSpendLimit, OpenedSession, Passkey, Pricing, Session, SignInWays, Usage,
  Voice,
} from "./types";

type Signal = AbortSignal | undefined;
const segment = encodeURIComponent;

export const session = {
  current: (signal?: Signal) => read<Session>("/sessions/current", { signal }),
  signIn: (with_: { login_token: string } | { email: string; password: string }) =>
    read<OpenedSession>("/sessions", { method: "POST", body: with_ }),
  list: (signal?: Signal) => read<List<ListedSession>>("/sessions", { signal }),
  end: (id: string) => read<void>(`/sessions/${segment(id)}`, { method: "DELETE" }),
  setPassword: (body: { password: string; current_password?: string }) =>
    read<void>("/password", { method: "PUT", body }),
};

/** Bytes in base64url. */
export interface PasskeyAnswer {
  credential_id: string;
  client_data: string;
  authenticator_data: string;
  signature: string;
  user_handle: string;
}
export interface MadePasskey { name: string; client_data: string; authenticator_data: string; public_key: string }

export const passkeys = {
  challenge: () => read<Challenge>("/passkeys/challenge", { method: "POST" }),
  signIn: (answer: PasskeyAnswer) => read<OpenedSession>("/sessions/passkey", { method: "POST", body: answer }),
  invite: () => read<Invitation>("/passkeys/invitation", { method: "POST" }),
  add: (made: MadePasskey) => read<Passkey>("/passkeys", { method: "POST", body: made }),
  list: (signal?: Signal) => read<List<Passkey>>("/passkeys", { signal }),
  rename: (id: string, name: string) =>
    read<Passkey>(`/passkeys/${segment(id)}`, { method: "PATCH", body: { name } }),
  remove: (id: string) => read<void>(`/passkeys/${segment(id)}`, { method: "DELETE" }),
};

/** Where the browser is to go: the issuer sends it back. With "step_up" the issuer asks its person again. */
export const issuer = {
  begin: (purpose: "sign_in" | "step_up") => read<{ url: string }>("/sign-in/oidc", { method: "POST", body: { purpose } }),
};

/** Accounts by mail, and their end. */
export const mail = {
  ways: () => read<SignInWays>("/sign-in"),
  link: (email: string) => read<void>("/sign-in/link", { method: "POST", body: { email } }),
  change: (email: string) => read<void>("/email", { method: "PUT", body: { email } }),
  confirm: (token: string) => read<void>("/email/confirmation", { method: "POST", body: { token } }),
  deleteAccount: (body: { email: string; forfeit_credits?: true }) =>
    read<void>("/account/deletion", { method: "POST", body }),
};

export const account = {
  show: (signal?: Signal) => read<Account>("/account", { signal }),
  ledger: (cursor: string | undefined, signal?: Signal) =>
    read<List<LedgerEntry>>(`/account/ledger${query({ limit: "50", cursor })}`, { signal }),
};

/** Those who sign this account in. */
export const issuers = {
  list: (signal?: Signal) => read<List<LinkedIssuer>>("/account/issuers", { signal }),
  remove: (id: string) => read<void>(`/account/issuers/${segment(id)}`, { method: "DELETE" }),
};

export const keys = {
  /** All of them: an account has 50 at most, and a page holds 100. */
  list: (signal?: Signal) => read<List<ApiKey>>("/account/keys?limit=100", { signal }),
  create: (body: NewApiKey) => read<ApiKeyWithSecret>("/account/keys", { method: "POST", body }),
  rename: (id: string, name: string) =>
    read<ApiKey>(`/account/keys/${segment(id)}`, { method: "PATCH", body: { name } }),
  limit: (id: string, spend_limit: NewSpendLimit | null) =>
    read<ApiKey>(`/account/keys/${segment(id)}`, { method: "PATCH", body: { spend_limit } }),
  rotate: (id: string, overlap_hours: number) =>
    read<ApiKeyWithSecret>(`/account/keys/${segment(id)}/rotate`, { method: "POST", body: { overlap_hours } }),
  remove: (id: string) => read<void>(`/account/keys/${segment(id)}`, { method: "DELETE" }),
};

export interface HistoryFilter {
  status?: string | undefined;
  created_after?: string | undefined;
  created_before?: string | undefined;
  key?: string | undefined;
  limit?: string | undefined;
  cursor?: string | undefined;
}

export const generations = {
  list: (filter: HistoryFilter, signal?: Signal) =>
    read<List<ListedGeneration>>(`/audio/generations${query({ ...filter })}`, { signal }),
  get: (id: string, signal?: Signal) =>
    read<Generation>(`/audio/generations/${segment(id)}`, { signal }),
  details: (id: string, signal?: Signal) =>
    read<Details>(`/audio/generations/${segment(id)}/details`, { signal }),
  /** Its changes as they happen, `status` and `progress`, until the server ends it. */
  events: (id: string, options: StreamOptions) => stream(`/audio/generations/${segment(id)}/events`, options),
  /** Answers when it is final, or after `seconds`; `waited`: the server did wait. */
  wait: async (id: string, seconds: number, signal?: Signal) => {
    const answer = await ask<Generation>(`/audio/generations/${segment(id)}`, {
      headers: { Prefer: `wait=${seconds}` }, signal,
    });
    return { generation: answer.body, waited: answer.headers.has("Preference-Applied") };
  },
  create: (body: RequestBody, idempotencyKey: string) =>
    read<Generation>("/audio/generations", {
      method: "POST", body, headers: { "Idempotency-Key": idempotencyKey },
    }),
  cancel: (id: string) =>
    read<Generation>(`/audio/generations/${segment(id)}/cancel`, { method: "POST" }),
  remove: (id: string) => read<void>(`/audio/generations/${segment(id)}`, { method: "DELETE" }),
  estimate: (body: RequestBody, signal?: Signal) =>
    read<Estimate>("/audio/estimates", { method: "POST", body, signal }),
};

export const catalogue = {
  voices: (signal?: Signal) => read<List<Voice>>("/voices", { signal }),
  models: (signal?: Signal) => read<List<Model>>("/models", { signal }),
  pricing: (signal?: Signal) => read<Pricing>("/pricing", { signal }),
};

export interface UsageQuestion {
  from: string;
  to: string;
  bucket: Bucket;
  group_by: "none" | "key" | "voice";
}
const usagePath = (question: UsageQuestion) => `/usage${query({ ...question })}`;

export const usage = {
  show: (question: UsageQuestion, signal?: Signal) => read<Usage>(usagePath(question), { signal }),
  csv: (question: UsageQuestion) => readCsv(usagePath(question)),
};
