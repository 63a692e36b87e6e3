// Everybody can use it: axe finds nothing on any page, in any theme, at any width; nothing scrolls
// sideways on the smallest screen.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, choose, closeBrowser, consoleUrl, eventually, generated, launch, loginLink, makeKey, newPage, newUser, open, settled, signedIn, violations } from "./support.mjs";

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
  test(`axe, ${colorScheme}`, async () => {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    for (const path of pages) {
      await page.setViewportSize({ width: widths[0], height: 900 });
      await open(page, path);
      // In the dark only colours differ, which a width has little to do with.
      for (const width of colorScheme === "light" || process.env.DEV_TEST_ALL ? widths : widths.slice(0, 1)) {
        await page.setViewportSize({ width, height: 900 });
        await settled(page);
        assert.deepEqual(await violations(page), [], `${path}, ${width} px`);
      }
    }
  });
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
    await choose(page, "Table");
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

test("nothing scrolls sideways at 320 px, nor at 200 % of 1280 px", async () => {
  for (const path of pages) {
    await page.setViewportSize({ width: 320, height: 640 });
    await open(page, path);
    await page.evaluate(() => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
    assert.equal(await sideways(page), 0, `${path}, 320 px`);
    await page.setViewportSize({ width: 640, height: 450 });
    await settled(page);
    assert.equal(await sideways(page), 0, `${path}, 640 px`);
  }
});

test("text of twice the size: nothing scrolls sideways, nothing is too small to press, and what sticks hides nothing", async (context) => {
  const large = await launch("--blink-settings=defaultFontSize=32");
  context.after(() => large.close());
  const user = await newUser({ credits: 1_000_000_000_000 });
  const reader = await signedIn(context, { user, within: large });
  await generated(reader, "A sentence.");
  await open(reader, "keys");
  await makeKey(reader, "W".repeat(60));
  const { data: [made] } = (await ask(reader, "GET", "/audio/generations")).body;
  for (const path of ["", "start", "playground", "history", `generations/${made.id}`, "keys", "usage", "billing", "reference", "settings"]) {
    for (const [width, height] of [[320, 640], [1280, 800]]) {
      await reader.setViewportSize({ width, height });
      await open(reader, path);
      assert.equal(await sideways(reader), 0, `${path}, ${width} px`);
    }
  }
  await reader.setViewportSize({ width: 320, height: 640 });
  await open(reader, "playground");
  const slider = await reader.getByRole("slider", { name: "Speed (times), slider" }).boundingBox();
  assert.ok(slider.width > 80, `a slider of ${slider.width} px`);
  assert.equal(await reader.locator(".submit-bar").evaluate((bar) => getComputedStyle(bar).position), "static");
  await reader.setViewportSize({ width: 1280, height: 800 });
  await open(reader, "usage");
  const label = await reader.locator(".chart text").first().boundingBox();
  assert.ok(label.height > 20, `the words of a chart grow with all others: ${label.height} px`);
});

test("on a phone the bar says where one is, and a ledger shows amounts", async (context) => {
  const phone = await signedIn(context, { user: page.email, viewport: { width: 360, height: 740 } });
  const more = phone.getByRole("button", { name: "More", exact: true });
  assert.equal(await more.getAttribute("aria-current"), null);
  await open(phone, "billing");
  assert.equal(await more.getAttribute("aria-current"), "true");
  const amount = await phone.locator("td.number").first().boundingBox();
  assert.ok(amount.x + amount.width < 360, `an amount ends at ${amount.x + amount.width}`);
});

test("a question of two lines does not lie over what is said below it", async (context) => {
  const phone = await signedIn(context, { user: await newUser({ credits: 1_000_000_000_000 }), path: "settings", viewport: { width: 360, height: 740 } });
  await phone.getByRole("button", { name: "Delete the account" }).click();
  const box = phone.getByRole("dialog").locator(".check");
  const end = await box.locator("label").evaluate((label) => {
    const words = document.createRange();
    words.selectNodeContents(label);
    return words.getBoundingClientRect().bottom;
  });
  const { y } = await box.locator(".hint").boundingBox();
  assert.ok(y >= end - 1, `the words end at ${end}, the hint begins at ${y}`);
});

test("every button that does something to one of many says to which", async () => {
  for (const path of ["history", "keys"]) {
    await open(page, path);
    const names = await page.locator("#main .row-actions button").evaluateAll((buttons) => buttons.map((one) => one.getAttribute("aria-label") ?? ""));
    assert.ok(names.length > 0, path);
    for (const name of names) {
      assert.match(name, /A sentence that is long|a key/, path);
    }
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
  await choose(dark, "Dark");
  await eventually("it is dark", async () => (await background()) !== light);
  const chosen = await background();
  // The pages' own script never arrives: what is seen then is what the first paint is.
  await dark.route("**/assets/main-*.js", (route) => route.abort());
  await dark.reload({ waitUntil: "domcontentloaded" });
  assert.equal(await background(), chosen);
  await dark.unroute("**/assets/main-*.js");
  await dark.reload();
  await settled(dark);
  await choose(dark, "System");
  await eventually("it is as the system again", async () => (await background()) === light);
});

test("forced colours: what has the focus, and what is chosen, is still seen", async (context) => {
  const forced = await signedIn(context, { user: page.email, forcedColors: "active" });
  for (const path of pages) {
    await open(forced, path);
    const steps = await forced.evaluate(() => document.querySelectorAll("a[href], button, input, select, textarea, summary").length);
    const unseen = new Set();
    for (let i = 0; i < steps; ++i) {
      await forced.keyboard.press("Tab");
      const ring = await forced.evaluate(() => {
        const { activeElement: on } = document;
        if (on === null || on === document.body) {
          return undefined;
        }
        // What is drawn for a hidden box is beside it.
        const drawn = [on, on.nextElementSibling, on.parentElement].filter((element) => element !== null);
        const seen = drawn.some((element) => {
          const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(element);
          return outlineStyle !== "none" && parseFloat(outlineWidth) >= 1 && outlineColor !== "rgba(0, 0, 0, 0)";
        });
        // An audio element's own controls have the focus, and draw it.
        return seen || on.matches("audio") ? "" : on.outerHTML.slice(0, 100);
      });
      if (ring === undefined) {
        break;
      }
      if (ring !== "") {
        unseen.add(ring);
      }
    }
    assert.deepEqual([...unseen], [], path);
    // What is chosen differs from its neighbours by more than its background, which is forced.
    assert.deepEqual(await forced.evaluate(() => {
      const look = (element) => {
        const { outlineStyle, borderColor, borderWidth, textDecorationLine, fontWeight, color } = getComputedStyle(element);
        return [outlineStyle, borderColor, borderWidth, textDecorationLine, fontWeight, color].join();
      };
      const boxOf = (input) => input.nextElementSibling ?? input;
      const pairs = [
        ...[...document.querySelectorAll("nav [aria-current]")].map((chosen) =>
          [chosen, [...chosen.closest("nav").querySelectorAll("a:not([aria-current])")].find((link) => link.className === chosen.className)]),
        ...[...document.querySelectorAll("input[type=radio]:checked")].map((chosen) =>
          [boxOf(chosen), [...document.querySelectorAll("input[type=radio]:not(:checked)")].filter(({ name }) => name === chosen.name).map(boxOf)[0]]),
      ];
      return pairs.filter(([chosen, other]) => chosen.getClientRects().length > 0 && other !== undefined && look(chosen) === look(other))
        .map(([chosen]) => chosen.outerHTML.slice(0, 100));
    }), [], path);
  }
});

test("reduced motion: nothing moves", async (context) => {
  const still = await signedIn(context, { user: page.email, reducedMotion: "reduce" });
  // Slow enough that what stands in for an answer is seen as well.
  await still.addInitScript(() => {
    window.moving = new Set();
    const look = () => {
      for (const animation of document.getAnimations()) {
        const { duration, iterations } = animation.effect.getComputedTiming();
        if (duration > 10 || iterations > 1) {
          window.moving.add(`${animation.animationName ?? animation.transitionProperty} of ${animation.effect.target.className}`);
        }
      }
      requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
  await still.route("**/console/api/v1/usage?**", async (route) => {
    await still.locator(".skeleton").first().waitFor().catch(() => undefined);
    await route.continue().catch(() => undefined);
  });
  for (const path of pages) {
    await open(still, path);
    assert.deepEqual(await still.evaluate(() => {
      const long = (times) => times.split(",").some((time) => parseFloat(time) * (time.trim().endsWith("ms") ? 1 : 1000) > 10);
      return [...document.querySelectorAll("*")].flatMap((element) => ["", "::before", "::after"].map((part) => [element, getComputedStyle(element, part || null)]))
        .filter(([, style]) => (style.animationName !== "none" && long(style.animationDuration)) || long(style.transitionDuration))
        .map(([element]) => element.outerHTML.slice(0, 100)).concat([...window.moving]);
    }), [], path);
  }
  await open(still, "keys");
  await still.getByRole("button", { name: "New key" }).click();
  await still.getByRole("dialog").waitFor();
  assert.deepEqual(await still.evaluate(() => [...window.moving]), []);
});
