// Everybody can use it: axe finds nothing on any page, in any theme, at any width; nothing scrolls
// sideways on the smallest screen.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, closeBrowser, consoleUrl, eventually, generated, loginLink, makeKey, newPage, newUser, open, settled, signedIn, violations } from "./support.mjs";

const widths = [360, 768, 1280];
let page;
let pages;

before(async (context) => {
  page = await signedIn({ after: () => undefined });
  const made = await generated(page, "A sentence that is long enough to be cut off somewhere on a narrow screen, or to need two lines.");
  await open(page, "keys");
  await makeKey(page, "a key");
  const { data: [key] } = (await ask(page, "GET", "/account/keys")).body;
  await ask(page, "PATCH", `/account/keys/${key.id}`, { spend_limit: { credits: 1000, period: "month" } });
  await ask(page, "POST", `/account/keys/${key.id}/rotate`, { overlap_hours: 168 });
  pages = ["", "start", "playground", "history", "history?status=failed", `generations/${made.id}`, "generations/nothing", "keys", "usage", "usage?by=voice", "billing", "reference", "settings", "no-such-page"];
});
after(closeBrowser);

for (const colorScheme of ["light", "dark"]) {
  for (const width of widths) {
    test(`axe, ${colorScheme}, ${width} px`, async () => {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.setViewportSize({ width, height: 900 });
      for (const path of pages) {
        await open(page, path);
        assert.deepEqual(await violations(page), [], path);
      }
    });
  }
}

test("axe: what opens over and in pages", async () => {
  await page.setViewportSize({ width: 1280, height: 900 });
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await open(page, "keys");
    for (const button of ["New key", "Rename a key", "Rotate a key", "Spend limit of a key", "Delete a key"]) {
      await page.getByRole("button", { name: button }).click();
      assert.deepEqual(await violations(page), [], button);
      await page.keyboard.press("Escape");
    }
    await page.getByRole("button", { name: "Help and shortcuts" }).click();
    assert.deepEqual(await violations(page), [], "help");
    await page.keyboard.press("Escape");
    await open(page, "usage");
    await page.getByRole("radio", { name: "Table" }).check({ force: true });
    assert.deepEqual(await violations(page), [], "table");
    await open(page, "reference");
    // Again until it is so: the page may still be drawing them.
    await eventually("every operation is open", async () => {
      await page.evaluate(() => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
      return (await page.getByRole("form", { name: "Try getUsage" }).count()) > 0;
    });
    assert.deepEqual(await violations(page), [], "reference, open");
    await page.getByRole("form", { name: "Try getAccount" }).getByRole("button", { name: "Send" }).click();
    await page.locator(".answer pre").waitFor();
    assert.deepEqual(await violations(page), [], "reference, answered");
    await open(page, "playground");
    await page.getByRole("button", { name: "Generate" }).click();
    await page.getByText("References optional").click();
    assert.deepEqual(await violations(page), [], "playground with a problem");
  }
});

test("axe: signed out", async (context) => {
  const out = await newPage(context);
  for (const address of [consoleUrl, await loginLink(await newUser())]) {
    await out.goto(address);
    await out.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
    for (const colorScheme of ["light", "dark"]) {
      for (const width of [320, ...widths]) {
        await out.emulateMedia({ colorScheme });
        await out.setViewportSize({ width, height: 900 });
        assert.deepEqual(await violations(out), []);
        assert.equal(await sideways(out), 0);
      }
    }
  }
});

function sideways(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

test("nothing scrolls sideways at 320 px", async () => {
  await page.setViewportSize({ width: 320, height: 640 });
  for (const path of pages) {
    await open(page, path);
    await page.evaluate(() => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
    assert.equal(await sideways(page), 0, path);
  }
});

test("whatever a finger presses is 40 px high and wide, and no word is cut", async (context) => {
  const phone = await signedIn(context, { user: page.email, viewport: { width: 360, height: 740 }, hasTouch: true });
  for (const path of pages) {
    await open(phone, path);
    assert.deepEqual(await phone.evaluate(() => {
      const found = [];
      const size = (element) => element.getBoundingClientRect();
      for (const element of document.querySelectorAll("#main :is(a, button, input, select, textarea, summary), nav :is(a, button)")) {
        const style = getComputedStyle(element);
        // A label is pressed for its box, a row for its link; a link in a sentence is as high as its line.
        const pressed = element.matches("[type=checkbox], [type=radio]") ? element.labels[0]
          : element.matches(".row-main") ? element.closest("li") : element;
        const hidden = element.closest(".visually-hidden, details:not([open]) > :not(summary)") !== null;
        if (!hidden && style.display !== "inline" && size(element).height > 0 && (size(pressed).height < 39.5 || size(pressed).width < 39.5)) {
          found.push(`small: ${element.outerHTML.slice(0, 120)}`);
        }
      }
      for (const element of document.querySelectorAll(".button span, nav span, .figure .value")) {
        if (size(element).height > 0 && element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== "inline") {
          found.push(`cut: ${element.textContent}`);
        }
      }
      return found;
    }), [], path);
  }
});

test("a dialog is in the middle, wherever on its page it was opened", async () => {
  await page.setViewportSize({ width: 1280, height: 900 });
  for (const [path, button] of [["keys", "New key"], ["settings", "Delete the account"]]) {
    await open(page, path);
    await page.getByRole("button", { name: button }).click();
    const { x, y, width, height } = await page.getByRole("dialog").boundingBox();
    assert.ok(Math.abs(x + width / 2 - 640) < 2 && Math.abs(y + height / 2 - 450) < 2, `${path}: ${x} ${y} ${width} ${height}`);
    await page.keyboard.press("Escape");
  }
});

test("what is asked for keeps its place, so that nothing below it moves when it comes", async (context) => {
  const slow = await signedIn(context, { user: page.email, viewport: { width: 360, height: 740 } });
  await slow.addInitScript(() => {
    window.moved = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => { window.moved += entry.hadRecentInput ? 0 : entry.value; }))
      .observe({ type: "layout-shift", buffered: true });
  });
  // One after the other, each after the browser has painted the one before.
  let last = Promise.resolve();
  await slow.route("**/console/api/v1/**", (route) => {
    last = last.then(async () => {
      await slow.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))).catch(() => undefined);
      await route.continue().catch(() => undefined);
    });
    return last;
  });
  for (const path of ["", "keys", "billing", "settings"]) {
    await open(slow, path);
    const moved = await slow.evaluate(() => window.moved);
    assert.ok(moved < 0.1, `${path}: ${moved}, and 0.1 is what is called good`);
  }
});

test("every page has one first heading, a title of its own and the landmarks", async () => {
  const titles = new Set();
  for (const path of ["", "start", "playground", "history", "keys", "usage", "billing", "reference", "settings"]) {
    await open(page, path);
    assert.equal(await page.locator("h1").count(), 1, path);
    assert.equal(await page.locator("main").count(), 1, path);
    titles.add(await page.title());
  }
  assert.equal(titles.size, 9);
});

test("the theme that was chosen is there before the first paint, and stays", async (context) => {
  const dark = await signedIn(context, { user: await newUser(), path: "settings", colorScheme: "light" });
  const background = () => dark.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await background();
  await dark.getByRole("radio", { name: "Dark" }).check({ force: true });
  await eventually("it is dark", async () => (await background()) !== light);
  const chosen = await background();
  // The pages' own script never arrives: what is seen then is what the first paint is.
  await dark.route("**/assets/main-*.js", (route) => route.abort());
  await dark.reload({ waitUntil: "domcontentloaded" });
  assert.equal(await background(), chosen);
  await dark.unroute("**/assets/main-*.js");
  await dark.reload();
  await settled(dark);
  await dark.getByRole("radio", { name: "System" }).check({ force: true });
  await eventually("it is as the system again", async () => (await background()) === light);
});
