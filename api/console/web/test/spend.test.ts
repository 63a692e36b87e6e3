import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { Decimal } from "../src/lib/decimal";
import { isUsedUp, limitCredits, limitMax, limitMin, share, spentText, type SpendLimit } from "../src/lib/spend";

const of = (text: string) => text as Decimal;
const day: SpendLimit = { credits: of("1000"), period: "day" };

const published = process.env["OPENAPI"];

test("bounds are those of the description", { skip: published === undefined }, () => {
  const description = JSON.parse(readFileSync(published ?? "", "utf8"));
  const { credits, period } = description.components.schemas.SpendLimit.properties;
  assert.deepEqual([credits.minimum, credits.maximum], [limitMin, limitMax]);
  assert.deepEqual(period.enum, ["day", "month"]);
});

test("a limit is typed in whole credits", () => {
  assert.equal(limitCredits("150"), 150);
  assert.equal(limitCredits(" 25,000 "), 25000);
  assert.equal(limitCredits("1000000000"), 1000000000);
  for (const text of ["", "149", "1000000001", "150.5", "1e3", "-150", "1,5", "many", "99999999999"]) {
    assert.equal(limitCredits(text), undefined, text);
  }
});

test("what is spent, in words and as a bar", () => {
  assert.equal(spentText(of("235.5"), day), "235.5 of 1,000 credits today");
  assert.equal(spentText(null, day), "not counted yet of 1,000 credits today");
  assert.equal(spentText(of("0"), { credits: of("25000"), period: "month" }), "0 of 25,000 credits this month");
  assert.equal(share(of("250"), day), 0.25);
  assert.equal(share(of("1500"), day), 1, "a limit that was lowered");
});

test("used up is when no generation fits in", () => {
  assert.equal(isUsedUp(of("850"), day), false);
  assert.equal(isUsedUp(of("850.001"), day), true);
  assert.equal(isUsedUp(of("1500"), day), true);
});
