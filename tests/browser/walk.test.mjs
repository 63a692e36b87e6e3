// From a sign-in link to a deleted key: what a customer does, in one go and piece by piece.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { ask, closeBrowser, consoleUrl, eventually, generated, loginLink, makeKey, newPage, newUser, open, settled, signedIn, statusWith } from "./support.mjs";

after(closeBrowser);

test("link, key, sound, price, history, usage, no key", async (context) => {
  const email = await newUser();
  const page = await newPage(context);
  await page.goto(await loginLink(email));
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  assert.equal(page.url(), consoleUrl);

  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "API keys" }).click();
  const key = await makeKey(page, "walk");
  assert.equal(await statusWith(key), 200);

  const prompt = "A walk through the whole console.";
  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Playground" }).click();
  await page.getByLabel("Prompt").fill(prompt);
  await page.getByText(/About .* credits/).waitFor();
  await page.getByRole("button", { name: "Generate" }).dblclick();
  await page.getByText("credits charged").waitFor();

  const listed = (await ask(page, "GET", "/audio/generations")).body.data;
  assert.equal(listed.length, 1, "a double click is one generation");
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
  await eventually("the day's usage has it", async () => {
    await page.reload();
    await settled(page);
    return (await page.locator(".figures").textContent()).includes(`Credits${price}`);
  }, 60_000);

  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "API keys" }).click();
  await page.getByRole("button", { name: "Delete walk" }).click();
  await page.getByRole("button", { name: "Delete the key" }).click();
  await page.getByText("That is not its name.").waitFor();
  assert.equal(await statusWith(key), 200, "one that is in use is not deleted without its name");
  await page.getByLabel("Type its name").fill("walk");
  await page.getByRole("button", { name: "Delete the key" }).click();
  await page.getByText("No keys yet").waitFor();
  // Within a second, and what a slow machine adds.
  await eventually("the key is refused", async () => (await statusWith(key)) === 401, 5000);
  assert.deepEqual(page.faults, []);
});

/** Plays it: the browser has decoded it when the time moves. */
async function hear(page) {
  const duration = await page.locator("audio").evaluate(async (audio) => {
    audio.muted = true;
    await audio.play();
    await new Promise((resolve) => audio.addEventListener("timeupdate", resolve, { once: true }));
    return audio.duration;
  });
  assert.ok(duration > 0.1, `${duration} s`);
}

test("a sign-in link works once, and looking at it does not use it up", async (context) => {
  const link = await loginLink(await newUser());
  assert.equal((await fetch(link)).status, 200);
  const first = await newPage(context);
  await first.goto(link);
  await first.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  const second = await newPage(context);
  await second.goto(link);
  await second.getByText("This sign-in link was used before").waitFor();
  assert.ok(!second.url().includes("#"));
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
  await page.getByText("48000", { exact: true }).waitFor();
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
  await page.getByRole("radio", { name: "Table" }).check({ force: true });
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
