import assert from "node:assert/strict";
import { test } from "node:test";
import { compare, credits, daysLeft, type Decimal, fromThousandths, grouped, signed, sum, thousandths } from "../src/lib/decimal";
import { integer, parseExact } from "../src/lib/exact_json";

const of = (text: string) => text as Decimal;

test("thousandths and back keep every digit that the service writes", () => {
  for (const text of ["0", "10", "18.75", "-131.25", "0.001", "-0.001", "9007199254740993.125"]) {
    assert.equal(fromThousandths(thousandths(of(text))), text);
  }
  assert.equal(thousandths(of("18.75")), 18750n);
  assert.equal(fromThousandths(-0n), "0");
  assert.throws(() => thousandths(of("1e")));
});

test("an exponent moves the point, however far", () => {
  for (const [text, shown] of [
    ["1e-04", "0.0001"], ["5.55e-17", "0.0000000000000000555"], ["-1.5e-1", "−0.15"], ["12.5e-1", "1.25"], ["0e-5", "0.00000"],
    ["1.25e1", "12.5"], ["1E+2", "100"], ["1.5e3", "1,500"], ["-0", "−0"],
  ] as const) {
    assert.equal(grouped(of(text)), shown, text);
  }
  assert.equal(grouped(of("5e-324")), `0.${"0".repeat(323)}5`);
  assert.equal(thousandths(of("1.8756e1")), 18756n);
  assert.equal(thousandths(of("-2e-3")), -2n);
  assert.equal(thousandths(of("5.55e-17")), 0n);
  assert.equal(sum([of("1e-1"), of("2e2")]), "200.1");
});

test("sums are exact where floats are not", () => {
  assert.equal(sum([of("0.1"), of("0.2")]), "0.3");
  assert.equal(sum([of("150"), of("-18.75"), of("-131.25")]), "0");
  assert.equal(sum([]), "0");
});

test("compares by value, not by letters", () => {
  assert.equal(compare(of("93"), of("150")), -1);
  assert.equal(compare(of("150.0"), of("150")), 0);
  assert.equal(compare(of("1000"), of("999.999")), 1);
  assert.equal(compare(of("5.55e-17"), of("0")), 1);
  assert.equal(compare(of("-0.0001"), of("0")), -1);
  assert.equal(compare(of("1e1"), of("10.0")), 0);
  assert.equal(compare(of("-0"), of("0")), 0);
});

test("people see groups, signs and all decimals", () => {
  assert.equal(grouped(of("1234567.125")), "1,234,567.125");
  assert.equal(grouped(of("-150")), "−150");
  assert.equal(grouped(of("999")), "999");
  assert.equal(signed(of("131.25")), "+131.25");
  assert.equal(signed(of("0")), "0");
  assert.equal(signed(of("-150")), "−150");
  assert.equal(credits(of("1")), "1 credit");
  assert.equal(credits(of("1.0")), "1.0 credit");
  assert.equal(credits(of("18.75")), "18.75 credits");
});

test("days left are whole days at the pace of the past", () => {
  assert.equal(daysLeft(of("1000"), of("300"), 30), 100n);
  assert.equal(daysLeft(of("999.999"), of("300"), 30), 99n);
  assert.equal(daysLeft(of("1000"), of("0"), 30), undefined);
});

test("numbers of an answer stay the text that was sent", () => {
  const read = parseExact('{"credits":18.750,"big":9007199254740993,"text":"a \\"1.5\\" 2","list":[-1,0.1],"no":null,"yes":true}');
  assert.deepEqual(read, { credits: "18.750", big: "9007199254740993", text: 'a "1.5" 2', list: ["-1", "0.1"], no: null, yes: true });
  assert.equal(integer(of("2048")), 2048);
});

test("what is not JSON is refused, also where quotes would mend it", () => {
  assert.throws(() => parseExact("{1:2}"), SyntaxError);
  assert.throws(() => parseExact("<html>"), SyntaxError);
});
