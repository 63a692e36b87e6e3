// Exact decimals. The server writes credits and seconds as decimal numbers; here they stay the text
// that it wrote, and what has to be added is counted in thousandths, as it counts them.

declare const decimal: unique symbol;
/** A decimal number as the server wrote it, for example "18.75". */
export type Decimal = string & { readonly [decimal]: true };

const form = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

interface Parts { sign: string; whole: string; fraction: string }

/** What stands before and after the point, where an exponent has moved it to; undefined: it is no decimal. */
function partsOf(value: Decimal): Parts | undefined {
  const parts = form.exec(value);
  if (parts === null) {
    return undefined;
  }
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = parts;
  const point = whole.length + Number(exponent);
  const digits = "0".repeat(Math.max(1 - point, 0)) + (whole + fraction).padEnd(point, "0");
  return { sign, whole: digits.slice(0, Math.max(point, 1)), fraction: digits.slice(Math.max(point, 1)) };
}

function refuse(value: Decimal): never {
  throw new Error(`not a decimal: ${value}`);
}

/** In units of the last of so many decimals; further ones are cut off. */
function units({ sign, whole, fraction }: Parts, decimals: number): bigint {
  const count = BigInt(whole + fraction.slice(0, decimals).padEnd(decimals, "0"));
  return sign === "-" ? -count : count;
}

/** Thousandths of `value`; further digits, which the server never sends of what is counted, are cut off. */
export function thousandths(value: Decimal): bigint {
  return units(partsOf(value) ?? refuse(value), 3);
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

/** -1, 0 or 1; to the last digit, since a setting may have more of them than credits have. */
export function compare(a: Decimal, b: Decimal): number {
  const left = partsOf(a) ?? refuse(a);
  const right = partsOf(b) ?? refuse(b);
  const decimals = Math.max(left.fraction.length, right.fraction.length);
  const difference = units(left, decimals) - units(right, decimals);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

/** For people: groups of three digits, a real minus sign, every decimal that the server sent. */
export function grouped(value: Decimal): string {
  const parts = partsOf(value);
  if (parts === undefined) {
    return value;
  }
  const groups = parts.whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return `${parts.sign === "-" ? "−" : ""}${groups}${parts.fraction === "" ? "" : `.${parts.fraction}`}`;
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
