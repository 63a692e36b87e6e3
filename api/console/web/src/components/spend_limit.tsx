// The fields of a spend limit, where a key is made and where it is changed.
import { type Signal, useSignal } from "@preact/signals";
import { grouped, type Decimal } from "../lib/decimal";
import { limitCredits, limitMax, limitMin, type Period, type SpendLimit } from "../lib/spend";
import type { NewSpendLimit } from "../api/types";
import { SelectField, TextField } from "./fields";

const periods = [["", "No limit"], ["day", "A day"], ["month", "A month"]] as const;

export interface LimitDraft {
  period: Signal<Period | "">;
  credits: Signal<string>;
  wrong: Signal<boolean>;
  /** What was chosen; null: no limit; undefined: what was typed is none, and the field says so. */
  read: () => NewSpendLimit | null | undefined;
}

export function useLimitDraft(before: SpendLimit | null): LimitDraft {
  const period = useSignal<Period | "">(before?.period ?? "");
  const credits = useSignal<string>(before?.credits ?? "");
  const wrong = useSignal(false);
  const read = () => {
    wrong.value = false;
    if (period.value === "") {
      return null;
    }
    const amount = limitCredits(credits.value);
    wrong.value = amount === undefined;
    return amount === undefined ? undefined : { credits: amount, period: period.value };
  };
  return { period, credits, wrong, read };
}

const bounds = `A whole number from ${limitMin} to ${grouped(String(limitMax) as Decimal)}.`;

export function LimitFields({ draft }: { draft: LimitDraft }) {
  return (
    <>
      <SelectField
        label="Spend limit" value={draft.period.value} options={periods} onValue={(value) => { draft.period.value = value; }}
        hint="Of a day or a month in UTC. Beyond it the key creates nothing until the next one begins."
      />
      {draft.period.value === "" ? null : (
        <TextField
          label={`Credits a ${draft.period.value}`} hint={`What a running generation reserves, ${limitMin}, counts.`} inputMode="decimal" autoComplete="off" required
          value={draft.credits.value} problem={draft.wrong.value ? bounds : undefined} onValue={(value) => { draft.credits.value = value; }}
        />
      )}
    </>
  );
}
