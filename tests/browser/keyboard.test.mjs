// Without a mouse: from the first run to a sound, and the single keys.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { base, closeBrowser, consoleUrl, eventually, generated, newPage, open, signedIn } from "./support.mjs";

after(closeBrowser);

/** Tab until the focus is where it is wanted; what is not reached in time cannot be reached. */
async function tabUntil(page, what, isThere) {
  for (let step = 0; step < 80; step += 1) {
    await page.keyboard.press("Tab");
    if (await isThere()) {
      return;
    }
  }
  assert.fail(`no Tab leads to ${what}`);
}

/** To something of this name, once it is there. */
async function tabTo(page, name) {
  const among = (elements) => page.evaluate(([name, elements]) => [...document.querySelectorAll(elements)].some((element) =>
    (element.getAttribute("aria-label") ?? (element.labels?.[0] ?? element).textContent).trim() === name), [name, elements]);
  await eventually(`${name} is there`, () => among("a, button, input, select, textarea"));
  await tabUntil(page, name, () => among(":focus"));
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
  await tabTo(page, "I saved it");
  await page.keyboard.press("Enter");
  await page.getByText("is yours.").waitFor();
  await eventually("the focus is where the key was", () => page.evaluate(() => document.activeElement?.textContent?.includes("is yours.")));
  assert.ok(!(await page.content()).includes(secret), "what was saved is not shown any longer");
  await tabTo(page, "Copy with the key");
  await page.keyboard.press("Enter");
  const command = await eventually("it was copied", () => page.evaluate(() => navigator.clipboard.readText()));
  assert.ok(command.includes(secret));
  const headers = Object.fromEntries([...command.matchAll(/-H "([^:]+): ([^"]+)"/g)].map(([, name, value]) => [name, value]));
  // What a terminal would do with it.
  const sent = await fetch(/http\S+/.exec(command)[0], {
    method: "POST", headers, body: /-d '(.*)'$/s.exec(command)[1],
  });
  assert.equal(sent.status, 202);
  await page.getByText("credits charged").waitFor();
  await tabUntil(page, "the player", () => page.evaluate(() => document.activeElement?.tagName === "AUDIO"));
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
  // Of two keys the second has to come within a moment of the first, so a busy machine may want them once more.
  const goes = (name, ...keys) => eventually(`the keys lead to ${name}`, async () => {
    for (const key of keys) {
      await page.keyboard.press(key);
    }
    return page.getByRole("heading", { level: 1, name }).waitFor({ timeout: 2000 }).then(() => true, () => false);
  });
  await goes("API keys", "g", "k");
  await goes("Usage", "g", "u");
  await goes("Playground", "n");
  await goes("History", "g", "h");
  await page.getByRole("link", { name: "First." }).waitFor();
  // The list takes keys a moment after it is in sight. There is nothing before its first row.
  await eventually("the first row has the focus", async () => {
    await page.keyboard.press("k");
    return page.evaluate(() => document.activeElement?.matches(".row-main") === true);
  });
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

test("what happens is read out: in a dialog, on a page, and where nobody is signed in", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: base });
  /** In a live region that a reader knows of: nothing outside a modal dialog is there while it is open. */
  const told = (where, text) => where.getByRole("status").filter({ hasText: text }).first().waitFor({ state: "attached" });
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("told");
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await told(dialog, "The key was made. It is shown once.");
  await dialog.getByRole("button", { name: "Copy the key" }).click();
  await told(dialog, "Copied");
  await dialog.getByRole("button", { name: "I saved it" }).click();
  await dialog.waitFor({ state: "detached" });

  const made = await generated(page, "Told.");
  const one = /\/audio\/generations\/aud_[^/]+$/;
  let shown = { ...made, status: "processing", output: null, usage: null, billing: { reserved_credits: 150 } };
  await page.route(/\/events$/, (route) => route.abort());
  await page.route(one, (route) => route.fulfill({ json: shown }));
  await open(page, `generations/${made.id}`);
  await told(page, "Making the audio");
  shown = made;
  await told(page, "Ready. Charged");
  await page.unroute(one);

  await open(page, "history");
  await page.getByLabel("Status").selectOption("failed");
  await told(page, "0 generations");

  const out = await newPage(context);
  await out.route("**/console/api/v1/sign-in", (route) => route.fulfill({ json: { mail: true, sign_up: "closed", oidc: false } }));
  await out.route("**/console/api/v1/sign-in/link", (route) => route.fulfill({ status: 204 }));
  await out.goto(consoleUrl);
  await out.getByText("Get a link by mail").click();
  await out.getByLabel("Address for the link").fill("ann@example.com");
  await out.getByRole("button", { name: "Send a sign-in link" }).click();
  await told(out, "A link is on its way");
});

test("what has the focus is in sight, on a phone too", async (context) => {
  const page = await signedIn(context, { path: "playground", viewport: { width: 360, height: 740 } });
  for (let step = 0; step < 45; step += 1) {
    await page.keyboard.press("Tab");
    const covered = await page.evaluate(() => {
      const element = document.activeElement;
      if (element === null || element.closest(".skip, .side, .submit-bar, textarea, pre") !== null || element === document.body) {
        return undefined;
      }
      const { top, bottom, height } = element.getBoundingClientRect();
      const bars = [...document.querySelectorAll(".submit-bar, .side nav")].map((bar) => bar.getBoundingClientRect());
      const under = bars.some((bar) => bottom - bar.top > 2 && bar.bottom - top > 2);
      return height < 200 && (under || top < 0) ? element.outerHTML.slice(0, 120) : undefined;
    });
    assert.equal(covered, undefined);
  }
});
