import { type Decimal, fromThousandths, sum, thousandths } from "./decimal";

export interface ReceiptLine { label: string; amount: Decimal }

/**
 * What a final generation did to the 150 credits that were held for it, as lines that sum to 0;
 * empty while it is open.
 */
export function receiptLines(billing: {
  reserved_credits: Decimal;
  charged_credits?: Decimal;
  returned_credits?: Decimal;
}): ReceiptLine[] {
  if (billing.charged_credits === undefined || billing.returned_credits === undefined) {
    return [];
  }
  return [
    { label: "Reserved at creation", amount: billing.reserved_credits },
    { label: "Charged", amount: negated(billing.charged_credits) },
    { label: "Returned to the balance", amount: negated(billing.returned_credits) },
  ];
}

export function receiptSum(lines: readonly ReceiptLine[]): Decimal {
  return sum(lines.map((line) => line.amount));
}

function negated(value: Decimal): Decimal {
  return fromThousandths(-thousandths(value));
}
