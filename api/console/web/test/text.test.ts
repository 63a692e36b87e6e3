import assert from "node:assert/strict";
import { test } from "node:test";
import { codePoints, deviceName, excerpt, issuerHost, loginToken, mailToken, plural } from "../src/lib/text";

test("code points, as the service counts", () => {
  assert.equal(codePoints(""), 0);
  assert.equal(codePoints("abc"), 3);
  assert.equal(codePoints("naïve"), 5);
  assert.equal(codePoints("👩‍🚀"), 3);  // Woman, joiner, rocket.
  assert.equal(codePoints("𝄞".repeat(2048)), 2048);
});

test("an excerpt is one line and never cuts a character in two", () => {
  assert.equal(excerpt("  a\n\n b\t c "), "a b c");
  assert.equal(excerpt("𝄞".repeat(5), 5), "𝄞".repeat(5));
  assert.equal(excerpt("𝄞".repeat(6), 5), `${"𝄞".repeat(4)}…`);
  assert.equal(excerpt("one two three", 5), "one…");
});

test("plural", () => {
  assert.equal(plural(1, "day"), "1 day");
  assert.equal(plural(0, "day"), "0 days");
  assert.equal(plural(12345n, "generation"), "12,345 generations");
});

test("devices by name", () => {
  const linux = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36";
  assert.equal(deviceName(linux), "Chrome on Linux");
  assert.equal(deviceName("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/15E148 Safari/604.1"), "Safari on iOS");
  assert.equal(deviceName("Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0"), "Firefox on Windows");
  assert.equal(deviceName("curl/8.0"), "curl");
  assert.equal(deviceName("<b>robot</b>"), "<b>robot</b>");
  assert.equal(deviceName(""), "Unknown device");
});

test("the token of a sign-in link", () => {
  assert.equal(loginToken("http://127.0.0.1:8080/console/#login=aB-_9"), "aB-_9");
  assert.equal(loginToken("#login=x"), "x");
  assert.equal(loginToken("#login="), undefined);
  assert.equal(loginToken("http://127.0.0.1/console/?login=x"), undefined);
});

test("the token of a link that confirms a mail address", () => {
  assert.equal(mailToken("#mail=abc_-9"), "abc_-9");
  assert.equal(mailToken("#login=abc"), undefined);
  assert.equal(mailToken("#mail="), undefined);
  assert.equal(mailToken("#mail=a b"), undefined);
});

test("an issuer by its host", () => {
  assert.equal(issuerHost("https://login.example.com"), "login.example.com");
  assert.equal(issuerHost("https://login.example.com:8443/realms/a?b=c"), "login.example.com:8443");
  assert.equal(issuerHost("https://löwe.example"), "xn--lwe-sna.example");  // What looks like another name is not shown as it.
  for (const other of ["", "no address", "urn:example:issuer"]) {
    assert.equal(issuerHost(other), other);
  }
});
