// What a key may spend in a day or a month of UTC.
import { compare, type Decimal, forDrawing, fromThousandths, grouped, thousandths } from "./decimal";

export type Period = "day" | "month";
export interface SpendLimit { credits: Decimal; period: Period }

/** As the service has them (SpendLimit in its description). */
export const limitMin = 150;
export const limitMax = 1_000_000_000;

/** The credits of a limit as somebody typed them; undefined where the service would refuse them. */
export function limitCredits(text: string): number | undefined {
  const digits = text.trim().replace(/,(?=\d{3}(?:,|$))/g, "");
  const value = /^\d{1,10}$/.test(digits) ? Number(digits) : Number.NaN;
  return value >= limitMin && value <= limitMax ? value : undefined;
}

const current: Record<Period, string> = { day: "today", month: "this month" };

/** "235.5 of 1,000 credits today". Null: it is not counted yet. */
export function spentText(spent: Decimal | null, limit: SpendLimit): string {
  return `${spent === null ? "not counted yet" : grouped(spent)} of ${grouped(limit.credits)} credits ${current[limit.period]}`;
}

const hold = fromThousandths(BigInt(limitMin) * 1000n);

/** Is there less left than one generation reserves? */
export function isUsedUp(spent: Decimal, limit: SpendLimit): boolean {
  return compare(fromThousandths(thousandths(limit.credits) - thousandths(spent)), hold) < 0;
}

/** For the length of a bar, 0 to 1. */
export function share(spent: Decimal, limit: SpendLimit): number {
  return Math.min(1, forDrawing(spent) / forDrawing(limit.credits));
}
