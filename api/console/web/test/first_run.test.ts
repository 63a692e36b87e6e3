import assert from "node:assert/strict";
import { test } from "node:test";
import type { Account, Pricing } from "../src/api/types";
import type { Decimal } from "../src/lib/decimal";
import { firstRun } from "../src/lib/first_run";

const pricing = { reserved_credits: "150" as Decimal } as Pricing;
const owner = (api_access: boolean, available: string) =>
  ({ api_access, credits: { available: available as Decimal, reserved: "0" as Decimal } }) as Account;

test("whoever's key would be refused is led on to what is not", () => {
  assert.equal(firstRun(owner(true, "150"), pricing), "key");
  assert.equal(firstRun(owner(false, "150"), pricing), "playground");
  assert.equal(firstRun(owner(true, "149.999"), pricing), "billing");
  assert.equal(firstRun(owner(false, "0"), pricing), "billing");
});
