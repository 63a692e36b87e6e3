// Without a mouse: from the first run to a sound, and the single keys.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { base, closeBrowser, eventually, generated, open, signedIn } from "./support.mjs";

after(closeBrowser);

/** Tab until the focus is on something of this name; what is not reached in time cannot be reached. */
async function tabTo(page, name) {
  for (let step = 0; step < 80; step += 1) {
    await page.keyboard.press("Tab");
    const focused = await page.evaluate(() => {
      const element = document.activeElement;
      return element?.getAttribute("aria-label") ?? (element?.labels?.[0] ?? element)?.textContent ?? "";
    });
    if (focused.trim() === name) {
      return;
    }
  }
  assert.fail(`no Tab leads to ${name}`);
}

test("from the first run to a sound by keys alone", async (context) => {
  const page = await signedIn(context);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: base });
  await tabTo(page, "Start");
  await page.keyboard.press("Enter");
  await tabTo(page, "Make a key");
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: "The key" }).waitFor();
  const shown = await page.getByRole("region", { name: "The request" }).textContent();
  const secret = await page.getByRole("region", { name: "The key" }).textContent();
  assert.ok(!shown.includes(secret), "the request on the page masks the key");
  await tabTo(page, "Copy with the key");
  await page.keyboard.press("Enter");
  const command = await eventually("it was copied", () => page.evaluate(() => navigator.clipboard.readText()));
  assert.ok(command.includes(secret));
  const headers = Object.fromEntries([...command.matchAll(/-H "([^:]+): ([^"]+)"/g)].map(([, name, value]) => [name, value]));
  // What a terminal would do with it.
  const sent = await fetch(/http\S+/.exec(command)[0], {
    method: "POST", headers: { ...headers, "Idempotency-Key": "first" }, body: /-d '(.*)'$/s.exec(command)[1],
  });
  assert.equal(sent.status, 202);
  await page.getByText("credits charged").waitFor();
  await page.locator("audio").focus();
  await page.locator("audio").evaluate((audio) => { audio.muted = true; });
  await page.keyboard.press("Space");
  await eventually("it plays", () => page.locator("audio").evaluate((audio) => audio.currentTime > 0));
  await tabTo(page, "On to the playground");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Playground" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), "H1");

  await tabTo(page, "Prompt");
  await page.keyboard.type("By hand, no mouse.");
  await page.keyboard.press("Control+Enter");
  await page.getByText("credits charged").waitFor();
  assert.deepEqual(page.faults, []);
});

test("the skip link leads past the navigation", async (context) => {
  const page = await signedIn(context, { path: "history" });
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), "H1");
});

test("single keys: go places, move in the list, open, help", async (context) => {
  const page = await signedIn(context);
  await generated(page, "First.");
  await generated(page, "Second.");
  const at = (name) => page.getByRole("heading", { level: 1, name }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("k");
  await at("API keys");
  await page.keyboard.press("g");
  await page.keyboard.press("u");
  await at("Usage");
  await page.keyboard.press("n");
  await at("Playground");
  await page.keyboard.press("g");
  await page.keyboard.press("h");
  await at("History");
  await page.getByRole("link", { name: "First." }).waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.locator(".prompt", { hasText: "First." }).waitFor();
  await page.keyboard.press("/");
  await eventually("the filters have the focus", () => page.evaluate(() => document.activeElement?.tagName === "SELECT"));
  await page.locator("h1").focus();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Help" }).waitFor();
  await page.keyboard.press("n");
  assert.equal(await page.getByRole("dialog", { name: "Help" }).count(), 1, "nothing fires under a dialog");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
});

test("single keys never fire where somebody writes, and can be switched off", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  await page.getByLabel("Prompt").focus();
  await page.keyboard.type("g h n ? / j");
  assert.equal(await page.getByLabel("Prompt").inputValue(), "g h n ? / j");
  await open(page, "settings");
  await page.getByLabel("Single-key shortcuts").uncheck();
  await page.locator("h1").focus();
  await page.keyboard.press("n");
  await page.keyboard.press("?");
  assert.equal(await page.getByRole("dialog").count(), 0);
  await page.reload();
  assert.equal(await page.getByLabel("Single-key shortcuts").isChecked(), false);
  assert.ok(page.url().endsWith("settings"));
});

test("a dialog keeps the focus and gives it back", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  await tabTo(page, "New key");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  for (let step = 0; step < 12; step += 1) {
    await page.keyboard.press("Tab");
    assert.ok(await page.evaluate(() => document.activeElement === document.body || document.activeElement?.closest("dialog") !== null));
  }
  await page.keyboard.press("Escape");
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "New key");
});

test("a key that is shown once does not go away by a slip", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("kept");
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: "The key" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  assert.equal(await page.getByRole("region", { name: "The key" }).count(), 1);
  await page.getByRole("button", { name: "I saved it" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
});
