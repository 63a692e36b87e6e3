import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { test } from "node:test";
import { languages, shellQuoted, snippet } from "../src/lib/snippets";

const base = "http://127.0.0.1:8080/api/v1";
const nasty = { model: "svc-audio-1.0", prompt: "It's \"$HOME\" `id` \\ \n <b>𝄞</b> ${x}", voice: "sage", speed: 0.9 };

test("no key is ever in it: it comes from the environment", () => {
  for (const language of languages) {
    assert.match(snippet(language, base, nasty, "k-1"), /AUDIO_API_KEY/);
  }
});

test("a shell reads back what was quoted", () => {
  for (const text of ["", "plain", "It's", "'''", "$HOME `id` \\ \n\"x\""]) {
    assert.equal(execFileSync("/bin/sh", ["-c", `printf %s ${shellQuoted(text)}`], { encoding: "utf8" }), text);
  }
});

test("curl sends the body to the letter", () => {
  const script = `curl() { for word; do last=$word; done; printf %s "$last"; }; ${snippet("curl", base, nasty, "k-1")}`;
  assert.deepEqual(JSON.parse(execFileSync("/bin/sh", ["-c", script], { encoding: "utf8" })), nasty);
});

test("curl needs nothing that a machine may not have", () => {
  const script = `curl() { printf '%s\\n' "$@"; }; ${snippet("curl", base, nasty, "k-1")}`;
  const words = execFileSync("/bin/sh", ["-c", script], { encoding: "utf8", env: { PATH: "/nowhere" } });
  assert.match(words, /^Idempotency-Key: k-1$/m);
});

test("a key that is given is filled in", () => {
  assert.match(snippet("curl", base, nasty, "k-1", "svc_live_abc"), /"Authorization: Bearer svc_live_abc"/);
});

test("JavaScript is JavaScript", () => {
  const checked = spawnSync(process.execPath, ["--check", "--input-type=module"], { input: snippet("JavaScript", base, nasty, "k-1"), encoding: "utf8" });
  assert.equal(checked.status, 0, checked.stderr);
});

test("Python is Python, where there is one", (context) => {
  const parse = "import ast, sys; ast.parse(sys.stdin.read())";
  const checked = spawnSync("python3", ["-c", parse], { input: snippet("Python", base, nasty, "k-1"), encoding: "utf8" });
  if (checked.error !== undefined) {
    context.skip("no python3");
    return;
  }
  assert.equal(checked.status, 0, checked.stderr);
});
