// From a sign-in link to a deleted key: what a customer does, in one go and piece by piece.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, test } from "node:test";
import { promisify } from "node:util";
import {
  admin, ask, base, choose, closeBrowser, consoleUrl, eventually, follow, generated, loginLink, makeKey, newPage, newUser, open, settled, signedIn, statusWith, waitOutMidnight,
} from "./support.mjs";

after(closeBrowser);

const run = promisify(execFile);

test("link, first run, key, sound, price, history, usage, no key", async (context) => {
  // As whoever showed the service to him has left it: a key, which has made a sound.
  const email = await newUser();
  const { key: demo } = JSON.parse(await admin("key", "create", "--user", email, "--name", "demo", "--json"));
  assert.equal(await createWith(demo, "Shown to somebody."), 202);
  const page = await newPage(context, { recording: "walk" });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: base });
  await follow(page, await loginLink(email));
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  assert.equal(page.url(), consoleUrl);

  const offer = page.getByRole("region", { name: "From a key to a sound" });
  await offer.getByRole("link", { name: "Start" }).click();
  await page.getByRole("button", { name: "Make a key" }).click();
  const first = await page.getByRole("region", { name: "The key" }).textContent();
  await page.getByRole("button", { name: "I saved it" }).click();
  await page.getByText("Waiting for your request").waitFor();
  await page.getByRole("button", { name: "Copy with the key" }).click();
  const command = await eventually("it was copied", () => page.evaluate(() => navigator.clipboard.readText()));
  await run("bash", ["-c", command]);
  await page.getByText("credits charged").waitFor();
  await hear(page);
  await page.getByRole("link", { name: "On to the playground" }).click();
  await page.getByRole("heading", { level: 1, name: "Playground" }).waitFor();
  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Overview" }).click();
  await page.getByText("Hello. This is the first sound of many.").waitFor();
  assert.equal(await offer.count(), 0, "the first run is over");

  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "API keys" }).click();
  const key = await makeKey(page, "walk");
  assert.equal(await statusWith(key), 200);

  const prompt = "A walk through the whole console.";
  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Playground" }).click();
  await page.getByLabel("Prompt").fill(prompt);
  await page.getByText(/About .* credits/).waitFor();
  await page.getByRole("button", { name: "Generate" }).dblclick();
  await page.getByText("credits charged").waitFor();

  const listed = await eventually("all have ended", async () => {
    const { data } = (await ask(page, "GET", "/audio/generations")).body;
    return data.every(({ status }) => status === "succeeded") && data;
  });
  assert.equal(listed.filter((one) => one.prompt === prompt).length, 1, "a double click is one generation");
  assert.equal(listed.length, 3);
  const [made] = listed;
  const price = String(made.usage.credits);
  assert.match(await page.locator(".price").textContent(), new RegExp(`^${price.replace(".", "\\.")} credits charged`));
  await hear(page);
  await eventually("the shape of it has filled", () => page.locator("canvas.waveform").evaluate((canvas) => {
    const accent = getComputedStyle(canvas).accentColor;
    const { data } = canvas.getContext("2d").getImageData(0, canvas.height / 2, 4, 1);
    return [...data].some((value, at) => at % 4 === 3 && value === 255 && accent === `rgb(${data[at - 3]}, ${data[at - 2]}, ${data[at - 1]})`);
  }));

  await page.reload();
  await page.getByText("credits charged").waitFor();
  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "History" }).click();
  await page.reload();
  await page.getByRole("link", { name: prompt }).click();
  await page.getByText("credits charged").waitFor();
  await hear(page);
  assert.match(await page.locator(".receipt tfoot").textContent(), /^Sum0$/);
  assert.equal(await page.locator(".prompt").textContent(), prompt);

  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Usage" }).click();
  const credits = listed.reduce((sum, one) => sum + Math.round(one.usage.credits * 1000), 0) / 1000;
  await eventually("the day's usage has all three", async () => {
    await page.reload();
    await settled(page);
    return (await page.locator(".figures").textContent()).includes(`Credits${credits}Generations3`);
  });

  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "API keys" }).click();
  const took = [];
  for (const [name, secret] of [["walk", key], ["first key", first], ["demo", demo]]) {
    await page.getByRole("button", { name: `Delete ${name}` }).click();
    await page.getByRole("button", { name: "Delete the key" }).click();
    await page.getByText("That is not its name.").waitFor();
    assert.equal(await statusWith(secret), 200, "one that is in use is not deleted without its name");
    await page.getByLabel("Type its name").fill(name);
    const deleted = page.waitForResponse((response) => response.request().method() === "DELETE");
    await page.getByRole("button", { name: "Delete the key" }).click();
    assert.equal((await deleted).status(), 204);
    const answered = performance.now();
    await eventually("the key is refused", async () => (await statusWith(secret)) === 401);
    took.push(performance.now() - answered);
    await page.getByRole("dialog").waitFor({ state: "detached" });
  }
  await page.getByText("No keys yet").waitFor();
  context.diagnostic(`refused after ${took.map(Math.round).join(", ")} ms`);
  assert.ok(Math.min(...took) <= 10_000, `${took} ms`);  // Within one second, on a machine that is not busy.
  assert.deepEqual(page.faults, []);
});

/** Plays it: the browser has decoded it when the time moves. */
async function hear(page) {
  const duration = await page.locator(".player audio").evaluate(async (audio) => {
    audio.muted = true;
    await audio.play();
    await new Promise((resolve) => audio.addEventListener("timeupdate", resolve, { once: true }));
    return audio.duration;
  });
  assert.ok(duration > 0.1, `${duration} s`);
}

test("a sign-in link works once, and opening it does not use it up", async (context) => {
  const link = await loginLink(await newUser());
  assert.equal((await fetch(link)).status, 200);
  // What looks into mails opens it in a browser and presses nothing.
  const scanner = await newPage(context);
  await scanner.goto(link);
  await scanner.getByRole("button", { name: "Sign in with this link" }).waitFor();
  assert.equal((await ask(scanner, "GET", "/account")).status, 401);
  assert.ok(!scanner.url().includes("#"));
  const first = await newPage(context);
  await follow(first, link);
  await first.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  const second = await newPage(context);
  await follow(second, link);
  await second.getByText("This sign-in link was used before").waitFor();
  await second.getByLabel("Mail address").waitFor();
  assert.ok(!second.url().includes("#"));
});

test("a link opened by somebody who is signed in says so, and leaves the choice", async (context) => {
  const page = await signedIn(context);
  const before = page.email;
  const other = await newUser();
  await page.goto(await loginLink(other));
  await page.getByText(`You are signed in as ${before}.`).waitFor();
  await page.getByRole("button", { name: `Stay signed in as ${before}` }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  assert.equal((await ask(page, "GET", "/sessions/current")).body.email, before);
  await follow(page, await loginLink(other));
  await page.getByText(other).first().waitFor();
  assert.equal((await ask(page, "GET", "/sessions/current")).body.email, other);
  assert.deepEqual(page.faults, []);
});

test("two tabs: one that shows another person does nothing for who is signed in now", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  const other = await page.context().newPage();
  const second = await newUser();
  await follow(other, await loginLink(second));
  await other.getByText(second).first().waitFor();
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("for whom?");
  await page.getByRole("button", { name: "Make the key" }).click();
  await page.getByText(second).first().waitFor();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  assert.equal((await page.getByRole("dialog").count()), 0);
  assert.deepEqual((await ask(other, "GET", "/account/keys")).body.data, []);
});

test("two tabs: what one person's was about to be made is not made as another's", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  // Nobody knows whether it was accepted; it is tried again in a while, and by then it is another's browser.
  let tries = 0;
  await page.route("**/console/api/v1/audio/generations", (route) => {
    tries += 1;
    return tries === 1 ? route.abort("connectionreset") : route.continue();
  });
  await page.getByLabel("Prompt").fill("Words of the first one.");
  await page.keyboard.press("Control+Enter");
  await eventually("it was sent", () => tries === 1);
  const other = await page.context().newPage();
  const second = await newUser();
  await follow(other, await loginLink(second));
  await other.getByText(second).first().waitFor();
  await page.getByText(second).first().waitFor();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await settled(page);
  assert.deepEqual(await page.evaluate(() => Object.keys(sessionStorage)), ["console.user"]);
  assert.deepEqual((await ask(other, "GET", "/audio/generations")).body.data, []);
});

test("the session has ended: signed in again in another tab, the first goes on", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  await page.getByLabel("Prompt").fill("Half a thought.");
  await page.context().clearCookies();
  await page.keyboard.press("Control+Enter");
  const sheet = page.getByRole("dialog", { name: "Your session has ended" });
  await sheet.waitFor();
  const other = await page.context().newPage();
  await follow(other, await loginLink(page.email));
  await other.getByText(page.email).first().waitFor();
  // As when somebody comes back to a tab: without a screen every tab is in front all the time.
  await page.evaluate(() => window.dispatchEvent(new Event("focus")));
  await sheet.waitFor({ state: "detached" });
  await page.getByText("credits charged").waitFor();
  assert.equal(await page.getByLabel("Prompt").inputValue(), "Half a thought.");
});

test("a reload in the middle goes on with the same generation", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  // Nothing answers the creation before the reload; the same key is sent again after it.
  const keys = [];
  let lost = true;
  await page.route("**/console/api/v1/audio/generations", async (route) => {
    if (route.request().method() !== "POST") {
      return route.continue();
    }
    keys.push(route.request().headers()["idempotency-key"]);
    if (lost) {
      await route.fetch({ headers: { ...route.request().headers(), "sec-fetch-site": "same-origin" } });
      return route.abort("connectionreset");
    }
    return route.continue();
  });
  await page.getByLabel("Prompt").fill("Interrupted.");
  await page.keyboard.press("Control+Enter");
  await eventually("it was sent", () => keys.length > 0);
  lost = false;
  await page.reload();
  await page.getByText("credits charged").waitFor();
  assert.equal(await page.getByLabel("Prompt").inputValue(), "Interrupted.");
  assert.equal(new Set(keys).size, 1);
  assert.equal((await ask(page, "GET", "/audio/generations")).body.data.length, 1);
});

test("the keys to submit, pressed again and again, are one generation", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  await page.getByLabel("Prompt").fill("Once.");
  for (let press = 0; press < 3; press += 1) {
    await page.keyboard.press("Control+Enter");
  }
  await page.getByText("credits charged").waitFor();
  assert.equal((await ask(page, "GET", "/audio/generations")).body.data.length, 1);
});

test("the form is the request: every control arrives", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  await page.getByLabel("Prompt").fill("Everything is set.");
  await page.getByRole("radio", { name: /^Sage/ }).check();
  await page.getByLabel("Format").selectOption("wav");
  await page.getByLabel("Sample rate").selectOption("48000");
  await page.getByRole("spinbutton", { name: "Speed" }).fill("1.25");
  await page.getByRole("spinbutton", { name: "Volume" }).fill("0.8");
  await page.getByRole("spinbutton", { name: "Pitch" }).fill("-1.5");
  await page.getByLabel("Spend at most").fill("18.75");
  const [request] = await Promise.all([
    page.waitForRequest((sent) => sent.method() === "POST" && sent.url().endsWith("/audio/generations")),
    page.getByRole("button", { name: "Generate" }).click(),
  ]);
  const { model, ...rest } = request.postDataJSON();
  assert.deepEqual(rest, {
    prompt: "Everything is set.", voice: "sage", output_format: "wav", sample_rate: 48000, speed: 1.25, volume: 0.8, pitch: -1.5, max_credits: 18.75,
  });
  await page.getByText("credits charged").waitFor();
  assert.match(await page.getByRole("region", { name: "Request in curl" }).textContent(), /\$AUDIO_API_KEY/);
  await page.getByRole("link", { name: "Details" }).click();
  await page.getByText("wav, 48,000 Hz").waitFor();
});

test("characters are counted as the service counts them", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  await page.getByLabel("Prompt").fill("𝄞".repeat(2048));
  await page.getByText("2,048 of 2,048 characters").waitFor();
  await page.getByText(/About .* credits/).waitFor();
  await page.getByLabel("Prompt").fill("𝄞".repeat(2049));
  await page.getByText("1 characters too many.").waitFor();
});

test("history: filters and pages are in the address, back goes back", async (context) => {
  const page = await signedIn(context, { user: await newUser({ credits: 5000 }) });
  const wanted = await generated(page, "Kept.");
  for (let number = 0; number < 20; number += 1) {
    await generated(page, `Number ${number}.`);
  }
  await open(page, "history");
  await page.getByRole("link", { name: "Number 19." }).waitFor();
  assert.equal(await page.locator(".row").count(), 20);
  await page.getByRole("button", { name: "Older" }).click();
  await page.getByRole("link", { name: "Kept." }).waitFor();
  assert.ok(page.url().includes("cursor="));
  await page.reload();
  await page.getByRole("link", { name: "Kept." }).click();
  await page.locator("code.id", { hasText: wanted.id }).first().waitFor();
  await page.goBack();
  await page.getByRole("link", { name: "Kept." }).waitFor();
  await page.goBack();
  await page.getByRole("link", { name: "Number 19." }).waitFor();
  await page.getByLabel("Status").selectOption("failed");
  await page.getByText("Nothing matches").waitFor();
  assert.ok(page.url().endsWith("?status=failed"));
  await page.getByRole("button", { name: "Clear the filters" }).click();
  await page.getByRole("link", { name: "Number 19." }).waitFor();
});

test("a generation that was deleted stays listed without its text", async (context) => {
  const page = await signedIn(context);
  const made = await generated(page, "Soon gone.");
  await open(page, "history");
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByText("Soon gone.").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("Deleted: the text and the audio are gone").click();
  await page.getByText("The audio was deleted").waitFor();
  assert.ok(page.url().endsWith(made.id));
  assert.ok(!(await page.content()).includes("Soon gone."));
});

test("what is not yours does not exist", async (context) => {
  const owner = await signedIn(context);
  const made = await generated(owner, "Mine.");
  const other = await signedIn(context, { path: `generations/${made.id}` });
  await other.getByText("No such generation").waitFor();
});

test("usage as CSV, by key", async (context) => {
  const page = await signedIn(context);
  await generated(page, "Counted.");
  await open(page, "usage?bucket=hour&by=key");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "CSV" }).click()]);
  assert.match(download.suggestedFilename(), /^usage-\d{4}-\d\d-\d\d-by-hour\.csv$/);
  await choose(page, "Table");
  assert.equal(await page.locator("tbody tr").count() >= 24, true, "hours without any are there, too");
  assert.deepEqual(page.faults, []);
});

test("a password, and with it a session; the sessions end", async (context) => {
  const page = await signedIn(context, { path: "settings" });
  await page.getByLabel("Password").fill("too short");
  await page.getByRole("button", { name: "Set a password" }).click();
  await page.getByText("At least 12 characters.", { exact: true }).waitFor();
  const password = "correct horse and some staples";
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Set a password" }).click();
  await page.getByText("Saved. Other sessions have ended.").waitFor();

  const other = await newPage(context);
  await other.goto(consoleUrl);
  await other.getByLabel("Mail address").fill(page.email);
  await other.getByLabel("Password").fill("not this one at all");
  await other.getByRole("button", { name: "Sign in", exact: true }).click();
  await other.getByText("That did not sign you in.").waitFor();
  await other.getByLabel("Password").fill(password);
  await other.getByRole("button", { name: "Sign in", exact: true }).click();
  await other.getByRole("heading", { level: 1, name: "Overview" }).waitFor();

  await page.reload();
  await page.getByRole("button", { name: /^Revoke/ }).click();
  await eventually("only this session is left", async () => (await page.getByRole("button", { name: /^Revoke/ }).count()) === 0);
  await eventually("the other session is over everywhere", async () => (await ask(other, "GET", "/account")).status === 401);
  await other.getByRole("link", { name: "History" }).first().click();
  await other.getByText("Your session has ended").waitFor();

  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
  assert.equal((await ask(page, "GET", "/account")).status, 401);
});

/** The status that a creation with a bearer key gets. */
async function createWith(key, prompt = "Counted.") {
  const answer = await fetch(`${base}/api/v1/audio/generations`, {
    method: "POST", headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ model: "svc-audio-1.0", prompt }),
  });
  return answer.status;
}

test("a spend limit: set with the key, spent, changed, removed", async (context) => {
  await waitOutMidnight();
  const page = await signedIn(context, { path: "keys" });
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("limited");
  await page.getByLabel("Spend limit", { exact: true }).selectOption("day");
  await page.getByRole("button", { name: "Make the key" }).click();
  await page.getByText("A whole number from 150 to 1,000,000,000.").waitFor();
  await page.getByLabel("Credits a day").fill("149");
  await page.getByRole("button", { name: "Make the key" }).click();
  await page.getByText("A whole number from 150 to 1,000,000,000.").waitFor();
  await page.getByLabel("Credits a day").fill("150");
  await page.getByRole("button", { name: "Make the key" }).click();
  const key = await page.getByRole("region", { name: "The key" }).textContent();
  await page.getByRole("button", { name: "I saved it" }).click();
  await page.getByText("0 of 150 credits today").waitFor();

  assert.equal(await createWith(key), 202);
  assert.equal(await createWith(key), 402);
  await page.reload();
  await page.getByText(/^(150|[1-9]\d(\.\d+)?) of 150 credits today$/).waitFor();  // It may have ended meanwhile.
  await page.getByText("limit reached").waitFor();

  await page.getByRole("button", { name: "Spend limit of limited" }).click();
  const dialog = page.getByRole("dialog");
  assert.equal(await dialog.getByLabel("Credits a day").inputValue(), "150");
  await dialog.getByLabel("Spend limit", { exact: true }).selectOption("month");
  await dialog.getByLabel("Credits a month").fill("25,000");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText(/ of 25,000 credits this month$/).waitFor();
  assert.equal(await page.getByText("limit reached").count(), 0);
  assert.equal(await createWith(key), 202);

  await page.getByRole("button", { name: "Spend limit of limited" }).click();
  await dialog.getByLabel("Spend limit", { exact: true }).selectOption("");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText("no spend limit").waitFor();
  assert.equal((await ask(page, "GET", "/account/keys")).body.data[0].spend_limit, null);
});

test("rotation: the new secret is shown once, the old one works on for as long as was said", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  const first = await makeKey(page, "turned");
  const rotate = async (hours) => {
    await page.getByRole("button", { name: "Rotate turned" }).click();
    await page.getByRole("spinbutton", { name: "Hours that both work" }).fill(hours);
    await page.getByRole("button", { name: "Make a new secret" }).click();
  };
  await rotate("169");
  await page.getByText("A whole number from 0 to 168").waitFor();
  await page.keyboard.press("Escape");
  await rotate("24");
  const second = await page.getByRole("region", { name: "The key" }).textContent();
  await page.getByText("The secret before it works until").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "I saved it" }).click();
  await page.getByText(/old secret works for (1 day 0 h|23 h 59 min)/).waitFor();
  assert.notEqual(second, first);
  assert.deepEqual([await statusWith(first), await statusWith(second)], [200, 200]);

  await page.getByRole("button", { name: "Rotate turned" }).click();
  await page.getByText("The one before that").waitFor();
  await page.keyboard.press("Escape");
  await rotate("0");
  const third = await page.getByRole("region", { name: "The key" }).textContent();
  await page.getByRole("button", { name: "I saved it" }).click();
  await eventually("the countdown is gone", async () => (await page.getByText("old secret works for").count()) === 0);
  assert.equal(await statusWith(third), 200);
  await eventually("the others are refused", async () => (await statusWith(first)) === 401 && (await statusWith(second)) === 401);
});

test("two tabs: what one deletes the other does not have", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  await makeKey(page, "both");
  const other = await page.context().newPage();
  await other.goto(`${consoleUrl}keys`);
  await other.getByText("both").waitFor();
  await page.getByRole("button", { name: "Delete both" }).click();
  await page.getByRole("button", { name: "Delete the key" }).click();
  await page.getByText("No keys yet").waitFor();
  await other.getByRole("button", { name: "Delete both" }).click();
  await other.getByRole("button", { name: "Delete the key" }).click();
  await other.getByText("It was not deleted.").waitFor();
});

test("a voice can be heard before it is chosen: one at a time, until the page is left", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  assert.ok(await page.getByRole("button", { name: "No sample of Aria" }).isDisabled());
  await admin("voices", "render");
  await eventually("there are samples", async () => {
    await open(page, "playground");
    return (await page.getByRole("button", { name: "Hear Aria" }).count()) === 1;
  });
  const audio = await page.locator(".voices audio").elementHandle();
  await audio.evaluate((player) => { player.loop = true; });
  const heard = () => audio.evaluate((player) => !player.paused && player.currentTime > 0 && new URL(player.src).pathname);
  await page.getByRole("button", { name: "Hear Aria" }).click();
  await page.getByRole("button", { name: "Stop the sample of Aria" }).waitFor();
  await eventually("Aria speaks", async () => (await heard()) === "/api/v1/voices/aria/preview");
  await page.getByRole("button", { name: "Hear Sage" }).click();
  await page.getByRole("button", { name: "Stop the sample of Sage" }).waitFor();
  await page.getByRole("button", { name: "Hear Aria" }).waitFor();
  await eventually("Sage speaks", async () => (await heard()) === "/api/v1/voices/sage/preview");
  assert.ok(await page.getByRole("radio", { name: /^Any The/ }).isChecked(), "to hear is not to choose");
  await page.getByRole("button", { name: "Stop the sample of Sage" }).click();
  await page.getByRole("button", { name: "Hear Sage" }).waitFor();
  assert.equal(await heard(), false);
  await page.getByRole("button", { name: "Hear Sage" }).focus();
  await page.keyboard.press("Enter");
  await eventually("Sage speaks", heard);
  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Usage" }).click();
  await page.getByRole("heading", { level: 1, name: "Usage" }).waitFor();
  assert.ok(await audio.evaluate((player) => player.paused));
  assert.deepEqual(page.faults, []);

  await page.route("**/preview", (route) => route.fulfill({ status: 404, json: {} }));
  await open(page, "playground");
  await page.getByRole("button", { name: "Hear Lena" }).click();
  await page.locator(".problem", { hasText: "The sample of Lena could not be played." }).waitFor();
});

test("a dialog that the browser closes by itself: what may not be lost is there again", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  // As browsers do when somebody goes back again and again, who then ask no page any more.
  const isBack = () => page.getByRole("dialog").evaluate((dialog) => new Promise((told) => {
    dialog.addEventListener("close", () => requestAnimationFrame(() => told(dialog.matches(":modal"))), { once: true });
    dialog.close();
  }));
  await page.getByRole("button", { name: "New key" }).click();
  assert.equal(await isBack(), false, "it may be closed");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "New key" }).click();
  assert.equal(await page.getByRole("dialog").getAttribute("closedby"), null);
  await page.getByRole("textbox", { name: "Name" }).fill("kept");
  await page.keyboard.press("Enter");
  const shown = page.getByRole("region", { name: "The key" });
  const secret = await shown.textContent();
  assert.equal(await isBack(), true, "the key is shown once");
  assert.equal(await page.getByRole("dialog").getAttribute("closedby"), "none");
  assert.equal(await shown.textContent(), secret);
  await page.getByRole("button", { name: "I saved it" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });

  await page.context().clearCookies();
  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "History" }).click();
  const sheet = page.getByRole("dialog", { name: "Your session has ended" });
  await sheet.waitFor();
  assert.equal(await isBack(), true, "nothing can be done without a sign-in");
  await sheet.getByText("Use a sign-in link").click();
  await sheet.getByLabel("Sign-in link").fill(await loginLink(page.email));
  await sheet.getByRole("button", { name: "Sign in with the link" }).click();
  await sheet.waitFor({ state: "detached" });
  assert.deepEqual(page.faults, []);
});

test("a mail address that an operator changes: who is signed in finds his work", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  await page.getByLabel("Prompt").fill("Half a thought.");
  const next = `new-${page.email}`;
  await admin("user", "email", "--user", page.email, "--email", next);
  await eventually("it is the session's", async () => (await ask(page, "GET", "/sessions/current")).body.email === next);
  await page.reload();
  await page.getByText(next).first().waitFor();
  assert.equal(new URL(page.url()).pathname, "/console/playground");
  assert.equal(await page.getByLabel("Prompt").inputValue(), "Half a thought.");
});

test("what went wrong with an organization is over once somebody has signed in another way", async (context) => {
  const page = await newPage(context);
  await page.goto(`${consoleUrl}#sign-in=failed`);
  await page.getByRole("alert").getByText("That did not sign you in.").waitFor();
  await page.getByText("Use a sign-in link").click();
  await page.getByLabel("Sign-in link").fill(await loginLink(await newUser()));
  await page.getByRole("button", { name: "Sign in with the link" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await settled(page);
  assert.equal(await page.getByText("your organization").count(), 0);
});
