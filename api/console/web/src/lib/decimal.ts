// Exact decimals. The server writes credits and seconds as decimal numbers; here they stay the text
// that it wrote, and what has to be compared or added is counted in thousandths, as it counts them.

declare const decimal: unique symbol;
/** A decimal number as the server wrote it, for example "18.75". */
export type Decimal = string & { readonly [decimal]: true };

const form = /^(-?)(\d+)(?:\.(\d+))?$/;

/** Thousandths of `value`; further digits, which the server never sends, are cut off. */
export function thousandths(value: Decimal): bigint {
  const parts = form.exec(value);
  if (parts === null) {
    throw new Error(`not a decimal: ${value}`);
  }
  const [, sign, whole = "0", fraction = ""] = parts;
  const units = BigInt(whole + fraction.slice(0, 3).padEnd(3, "0"));
  return sign === "-" ? -units : units;
}

/** The shortest decimal of so many thousandths. */
export function fromThousandths(units: bigint): Decimal {
  const digits = (units < 0n ? -units : units).toString().padStart(4, "0");
  const fraction = digits.slice(-3).replace(/0+$/, "");
  const text = digits.slice(0, -3) + (fraction === "" ? "" : `.${fraction}`);
  return (units < 0n ? `-${text}` : text) as Decimal;
}

export function sum(values: readonly Decimal[]): Decimal {
  return fromThousandths(values.reduce((total, value) => total + thousandths(value), 0n));
}

/** -1, 0 or 1. */
export function compare(a: Decimal, b: Decimal): number {
  const difference = thousandths(a) - thousandths(b);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

/** For people: groups of three digits, a real minus sign, every decimal that the server sent. */
export function grouped(value: Decimal): string {
  const parts = form.exec(value);
  if (parts === null) {
    return value;
  }
  const [, sign, whole = "0", fraction] = parts;
  const groups = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return `${sign === "-" ? "−" : ""}${groups}${fraction === undefined ? "" : `.${fraction}`}`;
}

/** Like `grouped`, with a plus sign before gains. */
export function signed(value: Decimal): string {
  return compare(value, zero) > 0 ? `+${grouped(value)}` : grouped(value);
}

/** "1 credit", "18.75 credits". */
export function credits(value: Decimal): string {
  return `${grouped(value)} ${thousandths(value) === 1000n ? "credit" : "credits"}`;
}

export const zero = "0" as Decimal;

/** For the height of a bar and nothing else: a float is not what anybody is charged. */
export function forDrawing(value: Decimal): number {
  return Number(value);
}

/** How many whole days `balance` lasts when `spent` went in `days` days; undefined: for ever. */
export function daysLeft(balance: Decimal, spent: Decimal, days: number): bigint | undefined {
  const pace = thousandths(spent);
  return pace <= 0n ? undefined : (thousandths(balance) * BigInt(days)) / pace;
}
