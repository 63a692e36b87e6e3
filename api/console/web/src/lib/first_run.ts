// Where an account gets its first sound.
import type { Account, Pricing } from "../api/types";
import { compare } from "./decimal";

/**
 * "key": by a key, as any program does. "playground": keys of this account cannot create generations yet.
 * "billing": it has not the credits for one, wherever it is asked for.
 */
export type FirstRun = "key" | "playground" | "billing";

export function firstRun(owner: Account, pricing: Pricing): FirstRun {
  return compare(owner.credits.available, pricing.reserved_credits) < 0 ? "billing" : owner.api_access ? "key" : "playground";
}
