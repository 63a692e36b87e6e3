// Everybody can use what is seldom on the screen, too: axe finds nothing in dialogs, in what is under way, has failed or was
// refused, in both themes and on a phone; and none of it scrolls sideways there. All of it is as the service answers.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, choose, closeBrowser, eventually, generate, generated, newUser, open, settled, signedIn, violations } from "./support.mjs";

after(closeBrowser);

const widths = [360, 768, 1280];

/** Whether something is wider than the place it has. */
function sideways(page) {
  return page.evaluate(() => [document.documentElement, ...document.querySelectorAll("dialog")]
    .some((element) => element.scrollWidth > element.clientWidth));
}

/**
 * Another theme runs down the page as transitions, however short: what inherits a colour begins when what it has it from is
 * done. Until a few frames in a row have none, colours of both themes are on the page.
 */
function still(page) {
  return page.evaluate(async () => {
    for (let frames = 0; frames < 3; frames += 1) {
      await new Promise((resolve) => requestAnimationFrame(resolve));
      if (document.getAnimations().some((one) => one.effect.getComputedTiming().iterations !== Infinity)) {
        frames = -1;
      }
    }
  });
}

/** What is on the page now, in both themes and at each width, is for everybody. */
async function forEverybody(page, what, at = widths) {
  const before = page.viewportSize();
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    for (const width of at) {
      await page.setViewportSize({ width, height: 800 });
      await still(page);
      assert.deepEqual(await violations(page), [], `${what}, ${colorScheme}, ${width} px`);
    }
  }
  for (const width of at.includes(360) ? [320, 360] : []) {
    await page.setViewportSize({ width, height: 640 });
    assert.equal(await sideways(page), false, `${what}, ${width} px`);
  }
  await page.setViewportSize(before);
}

let page;
let made;

before(async () => {
  page = await signedIn({ after: () => undefined });
  made = await generated(page, "A sentence that is long enough to be cut off somewhere on a narrow screen, or to need two lines.");
  await ask(page, "POST", "/account/keys", { name: "a key", scopes: ["generate"] });
});

test("dialogs of keys", async () => {
  await open(page, "keys");
  for (const button of ["Rename a key", "Rotate a key", "Spend limit of a key", "Delete a key"]) {
    await page.getByRole("button", { name: button }).click();
    await forEverybody(page, button);
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  }
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("button", { name: "Make the key" }).click();
  await page.getByText("Give it a name.").waitFor();
  await forEverybody(page, "a new key without a name");
  await page.getByRole("textbox", { name: "Name" }).fill("shown once");
  await page.getByRole("button", { name: "Make the key" }).click();
  await page.getByRole("region", { name: "The key" }).waitFor();
  await forEverybody(page, "a key that is shown once");
  await page.getByRole("button", { name: "I saved it" }).click();
});

test("what is asked before something is deleted", async () => {
  await open(page, `generations/${made.id}`);
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog", { name: "Delete this generation?" }).getByText("A sentence that is long").waitFor();
  await forEverybody(page, "Delete this generation?");
  await page.getByRole("button", { name: "Keep it" }).click();
  await open(page, "settings");
  await page.getByRole("button", { name: "Delete the account" }).click();
  const question = page.getByRole("dialog", { name: "Delete the account?" });
  await question.getByLabel("I lose").waitFor();
  await question.getByRole("button", { name: "Delete for good" }).click();
  await question.getByText("That is not your mail address.").waitFor();
  await forEverybody(page, "Delete the account?");
  await page.getByRole("button", { name: "Keep it" }).click();
});

test("help, and More on a phone", async () => {
  await open(page, "");
  await page.getByRole("button", { name: "Help and shortcuts" }).click();
  await forEverybody(page, "Help");
  await page.keyboard.press("Escape");
  await page.setViewportSize({ width: 360, height: 640 });
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("dialog", { name: "More" }).waitFor();
  await forEverybody(page, "More", [360]);
  await page.keyboard.press("Escape");
  await page.setViewportSize({ width: 1280, height: 800 });
});

test("a session that has ended", async (context) => {
  const over = await signedIn(context, { path: "playground" });
  await over.getByLabel("Prompt").fill("Half a thought.");
  await over.context().clearCookies();
  await over.getByRole("button", { name: "Generate" }).click();
  await over.getByRole("dialog", { name: "Your session has ended" }).waitFor();
  await forEverybody(over, "Your session has ended");
});

test("a generation that is under way, and one that was canceled", async (context) => {
  const own = await signedIn(context, { path: "playground" });
  await generate(own, "Endless.");
  await own.getByText("Making the audio").waitFor();
  await forEverybody(own, "under way in the playground");
  await own.getByRole("link", { name: "Details" }).click();
  await own.getByText("Making the audio").waitFor();
  await own.locator(".timeline").waitFor();
  await forEverybody(own, "under way on its page");
  await own.getByRole("button", { name: "Cancel", exact: true }).click();
  await own.getByText("Canceled. Refunded").waitFor();
  await forEverybody(own, "canceled, on its page");
  await open(own, "playground");
  await own.getByText("Canceled. Refunded").waitFor();
  await forEverybody(own, "canceled, in the playground");
});

test("a generation that has failed, one that has succeeded, and one that was deleted", async (context) => {
  const own = await signedIn(context, { path: "playground" });
  await generate(own, "Refused.");
  await own.getByText("Refunded 150 credits").waitFor();
  await forEverybody(own, "failed, in the playground");
  await own.getByRole("link", { name: "Details" }).click();
  await own.getByText("Refunded 150 credits").waitFor();
  await own.locator(".timeline").waitFor();
  await forEverybody(own, "failed, on its page");
  await open(own, "playground");
  await own.getByRole("button", { name: "Clear" }).click();
  await generate(own, "To be heard.");
  await own.getByText("credits charged").waitFor();
  await own.locator("canvas.waveform").waitFor();
  await forEverybody(own, "a result in the playground");
  for (const language of ["Python", "JavaScript"]) {
    await choose(own, language);
    await forEverybody(own, `copied as ${language}`, [360]);
  }
  await own.getByRole("link", { name: "Details" }).click();
  await own.getByRole("button", { name: "Delete" }).click();
  await own.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await own.getByText("The audio was deleted on").waitFor();
  await eventually("the dialog is gone", async () => (await own.getByRole("dialog").count()) === 0);
  await settled(own);
  await forEverybody(own, "deleted, on its page");
});

test("not enough credits", async (context) => {
  const poor = await signedIn(context, { user: await newUser({ credits: 93 }), path: "playground" });
  await generate(poor, "Too dear.");
  await poor.getByText("Not enough credits:").waitFor();
  await forEverybody(poor, "402");
});
