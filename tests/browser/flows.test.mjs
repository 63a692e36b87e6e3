// What ends otherwise than well, what is seldom done, and what only time or an operator changes: nothing that the console is told
// here is made up. The provider ends as the first word of a prompt says (flows_test.cc); times are set back in the database.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import {
  admin, ask, base, choose, closeBrowser, consoleUrl, control, copy, eventually, follow, generate, generated, loginLink, makeKey, newPage, newUser,
  open, settled, signedIn, statusWith, waitOutMidnight,
} from "./support.mjs";

after(closeBrowser);

const run = promisify(execFile);

/** Bodies of the creations that the page sends from now on. */
function creations(page) {
  const sent = [];
  page.on("request", (request) => {
    if (request.method() === "POST" && request.url().endsWith("/audio/generations")) {
      sent.push(request.postDataJSON());
    }
  });
  return sent;
}

/** The one generation that the playground is about, as the API has it. */
async function shown(page) {
  const id = await page.locator("#result code.id").first().textContent();
  return (await ask(page, "GET", `/audio/generations/${id}`)).body;
}

async function creditsOf(page) {
  return (await ask(page, "GET", "/account")).body.credits;
}

/** Where rows are of one user; his address is of letters, digits, hyphens and what an address has. */
const belongsTo = (email) => `user_id=(SELECT id FROM users WHERE email='${email}')`;

// --- the playground

test("references: the addresses of sounds arrive and are fetched, and the page knows them afterwards", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  const sent = creations(page);
  const sounds = ["one", "two"].map((name) => `${process.env.FILES_URL}/sound.wav?${name}-${randomUUID()}`);
  await page.getByText("References optional").click();
  await page.getByLabel("Sound 1").fill(sounds[0]);
  await page.getByLabel("Sound 3").fill(sounds[1]);
  await page.getByLabel("Image").fill(`${process.env.FILES_URL}/picture.png`);
  await page.getByText("An image cannot be combined with audio references.").waitFor();
  await generate(page, "Like both of them.");
  await eventually("what is wrong has the focus", () => page.getByLabel("Image").evaluate((field) => document.activeElement === field));
  await page.getByLabel("Image").fill("");
  await page.getByRole("button", { name: "Generate" }).click();
  await page.getByText("credits charged").waitFor();
  assert.deepEqual(sent.map(({ model, ...rest }) => rest), [{ prompt: "Like both of them.", audio_references: sounds }]);
  const fetched = await control("/fetched");
  for (const sound of sounds) {
    assert.ok(fetched.includes(new URL(sound).search), `${sound} in ${fetched}`);
  }
  const { id } = await shown(page);
  const { body: details } = await ask(page, "GET", `/audio/generations/${id}/details`);
  assert.deepEqual(details.request.references.map(({ kind }) => kind), ["audio", "audio"]);
  await page.getByRole("link", { name: "Details" }).click();
  await page.getByText("audio, audio").waitFor();
  const again = page.getByRole("region", { name: "Request in curl" });
  await again.getByText(sounds[1]).waitFor();
  await page.reload();
  await again.getByText(sounds[0]).waitFor();
  assert.equal(await page.getByText("are told to nobody again").count(), 0);
  assert.deepEqual(page.faults, []);
});

test("references: the fields stay open while what is in them is cleared", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  await page.getByText("References optional").click();
  const sound = page.getByLabel("Sound 1");
  await sound.fill("https://example.com/a.wav");
  await sound.fill("");
  await sound.pressSequentially("https://example.com/b.wav");
  assert.equal(await sound.inputValue(), "https://example.com/b.wav");
  await page.reload();
  await sound.waitFor();  // What is in the draft is seen at once.
});

test("references: an image arrives; one that cannot be had is refunded, and said", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  const sent = creations(page);
  await page.getByText("References optional").click();
  await page.getByLabel("Image").fill(`${process.env.FILES_URL}/picture.png`);
  await generate(page, "As in this picture.");
  await page.getByText("Refunded 150 credits").waitFor();
  assert.equal(sent[0].image_url, `${process.env.FILES_URL}/picture.png`);
  const { error } = await shown(page);
  await page.getByText(error.message).waitFor();
  await page.getByText(error.code).waitFor();
});

/** What `program` of `language` on the page prints, run by itself with a key of the account. */
async function output(context, page, language, file, command) {
  const { key } = JSON.parse(await admin("key", "create", "--user", page.email, "--name", "program", "--json"));
  const folder = await mkdtemp(join(tmpdir(), "audiogen-copied-"));
  context.after(() => rm(folder, { recursive: true }));
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: base });
  await choose(page, language);
  const text = await page.getByRole("region", { name: `Request in ${language}` }).textContent();
  await copy(page, `Copy ${language}`);
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), text);
  assert.ok(!text.includes(key) && text.includes("AUDIO_API_KEY"), "the key is not in it, where it comes from is");
  await writeFile(join(folder, file), text);
  const { stdout } = await run(command, [join(folder, file)], { env: { ...process.env, AUDIO_API_KEY: key } });
  return stdout.trim();
}

for (const [language, file, command] of [["Python", "copied.py", "/usr/bin/python3"], ["JavaScript", "copied.mjs", process.execPath]]) {
  test(`copied as ${language} it is a program that makes the same`, async (context) => {
    const page = await signedIn(context, { path: "playground" });
    const prompt = `"It's" a \\ tab\tand\nthe clef 𝄞, for \${nobody}.`;
    await page.getByLabel("Prompt").fill(prompt);
    await page.getByLabel("Format").selectOption("wav");
    await page.getByRole("spinbutton", { name: "Speed" }).fill("1.25");
    const url = await output(context, page, language, file, command);
    const audio = await fetch(url);
    assert.equal(audio.status, 200, url);
    assert.equal(Buffer.from(await audio.arrayBuffer()).subarray(0, 4).toString(), "RIFF");
    const { data: made } = (await ask(page, "GET", "/audio/generations")).body;
    assert.equal(made.length, 1);
    const { request } = (await ask(page, "GET", `/audio/generations/${made[0].id}/details`)).body;
    assert.deepEqual([request.prompt, request.output_format, request.speed], [prompt, "wav", 1.25]);
  });
}

/** The file that the player's button saves, by its name. */
async function saved(page, format) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: `Download ${format}` }).click()]);
  return { name: download.suggestedFilename(), bytes: await readFile(await download.path()) };
}

test("the player saves the file under the generation's id", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  await page.getByLabel("Format").selectOption("wav");
  await generate(page, "To be kept.");
  await page.getByText("credits charged").waitFor();
  const { id, output: made } = await shown(page);
  const file = await saved(page, "wav");
  assert.equal(file.name, `${id}.wav`);
  assert.deepEqual(file.bytes, Buffer.from(await (await fetch(made.url)).arrayBuffer()));
  assert.deepEqual(page.faults, []);
});

test("raw samples: no player, why, their shape and the file, in the playground and on their page", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  await page.getByLabel("Format").selectOption("pcm");
  await generate(page, "Raw.");
  await page.getByText("credits charged").waitFor();
  const { id, output: made } = await shown(page);
  for (const path of ["playground", `generations/${id}`]) {
    await open(page, path);
    await page.getByText("Raw samples have no header, so browsers do not play them: signed 16-bit, little-endian, mono.").waitFor();
    assert.equal(await page.locator("#main audio[controls]").count(), 0, path);
    await eventually("the shape is drawn", () => page.locator("canvas.waveform").evaluate((canvas) =>
      canvas.getContext("2d").getImageData(0, canvas.height / 2, canvas.width, 1).data.some((value) => value > 0)));
    const file = await saved(page, "pcm");
    assert.equal(file.name, `${id}.pcm`);
    assert.equal(file.bytes.length, Math.round(made.duration_seconds * 24_000) * 2, path);
  }
  await page.getByText("pcm, 24,000 Hz").waitFor();
  assert.deepEqual(page.faults, []);
});

// --- how a generation ends

/** Presses Cancel, which the service grants. */
async function cancel(page) {
  const [answer] = await Promise.all([page.waitForResponse(/\/cancel$/), page.getByRole("button", { name: "Cancel", exact: true }).click()]);
  assert.deepEqual([answer.request().method(), answer.status()], ["POST", 200]);
  await page.getByText("Canceled. Refunded 150 credits; nothing was charged.").waitFor();
  assert.equal(await page.getByRole("button", { name: "Cancel", exact: true }).count(), 0);
}

test("canceled in the playground: everything returns, and the next may be made", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  // So everything is within the second of a double click.
  await page.clock.setFixedTime(Date.now());
  await generate(page, "Endless.");
  await page.getByText("Making the audio").waitFor();
  await page.getByText("850 credits available").waitFor();
  assert.equal(await page.getByRole("button", { name: "Under way" }).getAttribute("aria-disabled"), "true");
  await cancel(page);
  assert.equal((await shown(page)).status, "canceled");
  await page.getByText("1,000 credits available").waitFor();
  assert.deepEqual(await creditsOf(page), { available: 1000, reserved: 0 });
  const sent = creations(page);
  await page.getByLabel("Prompt").fill("Something shorter.");
  await page.getByRole("button", { name: "Generate" }).click();
  await eventually("a different prompt is no half of a double click", () => sent.length === 1);
  await page.getByText("credits charged").waitFor();
  assert.deepEqual(page.faults, []);
});

test("canceled on its page: it streams, ends, and is offered again", async (context) => {
  const page = await signedIn(context);
  const { body: made } = await ask(page, "POST", "/audio/generations", { model: "svc-audio-1.0", prompt: "Endless, from elsewhere.", voice: "atlas" });
  await open(page, `generations/${made.id}`);
  await page.getByText("Making the audio").waitFor();
  await page.getByText("150 credits are reserved.").waitFor();
  await page.getByText("and refunded if nothing was delivered").waitFor();
  assert.equal(await page.getByRole("button", { name: "Delete" }).count(), 0, "what is open is not deleted");
  await cancel(page);
  assert.deepEqual((await page.locator(".receipt tr").allTextContents()), ["Reserved at creation+150", "Charged0", "Returned to the balance−150", "Sum0"]);
  await page.locator(".timeline li", { hasText: "Canceled" }).waitFor();
  await page.reload();
  await page.getByText("Canceled. Refunded 150 credits; nothing was charged.").waitFor();
  const sent = creations(page);
  await page.getByRole("button", { name: "Retry with the same settings" }).click();
  await page.getByText("Making the audio").waitFor();
  assert.deepEqual(sent.map(({ model, ...rest }) => rest), [{ prompt: "Endless, from elsewhere.", voice: "atlas" }]);
  await cancel(page);
  await open(page, "history?status=canceled");
  assert.equal(await page.locator(".row").count(), 2);
  assert.deepEqual(page.faults, []);
});

test("one that is canceled elsewhere ends on the page that shows it", async (context) => {
  const page = await signedIn(context);
  const { body: made } = await ask(page, "POST", "/audio/generations", { model: "svc-audio-1.0", prompt: "Endless, in two tabs." });
  const other = await page.context().newPage();
  for (const tab of [page, other]) {
    await open(tab, `generations/${made.id}`);
    await tab.getByText("Making the audio").waitFor();
  }
  await cancel(other);
  await page.getByText("Canceled. Refunded 150 credits; nothing was charged.").waitFor();
});

test("a text that is refused: why, what returns, and nothing that would only fail again", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  await generate(page, "Refused words.");
  const { id, error } = await eventually("it has failed", async () => {
    await page.getByText("The text was refused. Change it and try again.").waitFor();
    return shown(page);
  });
  assert.deepEqual([error.code, error.retriable], ["content_rejected", false]);
  for (const path of [undefined, `generations/${id}`]) {
    if (path !== undefined) {
      await open(page, path);
    }
    for (const text of ["The text was refused. Change it and try again.", error.message, "Refunded 150 credits; nothing was charged.", "content_rejected"]) {
      await page.getByText(text).first().waitFor();
    }
    assert.equal(await page.getByText("trying again may help").count(), 0);
    assert.equal(await page.locator("audio[controls]").count(), 0);
  }
  await page.locator(".badge", { hasText: "Failed" }).first().waitFor();
  await page.locator(".timeline li", { hasText: "Attempt 1 failed" }).waitFor();
  assert.match(await page.locator(".receipt tfoot").textContent(), /^Sum0$/);
  assert.equal((await creditsOf(page)).available, 1000);
  await page.getByRole("button", { name: "Use in the playground" }).click();
  await page.getByRole("heading", { level: 1, name: "Playground" }).waitFor();
  assert.equal(await page.getByLabel("Prompt").inputValue(), "Refused words.");
  await open(page, "history?status=failed");
  await page.getByRole("link", { name: "Refused words." }).waitFor();
  assert.deepEqual(page.faults, []);
});

test("deleted on its page: text and audio are gone, the price stays", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  await generate(page, "Soon gone.");
  await page.getByText("credits charged").waitFor();
  const { id, output: made } = await shown(page);
  await page.getByRole("link", { name: "Details" }).click();
  await page.getByRole("button", { name: "Delete" }).click();
  const question = page.getByRole("dialog", { name: "Delete this generation?" });
  await question.getByText("Soon gone.").waitFor();
  await question.getByRole("button", { name: "Delete" }).click();
  await question.waitFor({ state: "detached" });
  for (const again of [false, true]) {
    if (again) {
      await page.reload();
    }
    await page.getByText("The audio was deleted on").waitFor();
    await page.getByText("The text was deleted.").waitFor();
    await page.locator(".timeline li", { hasText: "Text and audio deleted" }).waitFor();
    await page.locator(".price", { hasText: "15 credits charged" }).waitFor();
    for (const name of ["Delete", "Use in the playground", "Retry with the same settings"]) {
      assert.equal(await page.getByRole("button", { name }).count(), 0, name);
    }
    assert.ok(!(await page.content()).includes("Soon gone."));
  }
  await eventually("its file is gone", async () => (await fetch(made.url)).status === 404);
  await open(page, "playground");
  await page.getByText("Nothing to hear yet").waitFor();
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
  assert.ok(!kept.includes(id), "the tab forgets it, too");
  assert.deepEqual(page.faults, []);
});

// --- figures

/** What a figure says, by its label. */
async function figures(page) {
  return Object.fromEntries(await page.locator(".figures .figure").evaluateAll((all) => all.map((one) =>
    [one.querySelector("dt").textContent, one.querySelector(".value").textContent])));
}

const lines = (page, table) => page.getByRole("region", { name: table }).locator("tbody tr")
  .evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent.trim())));

test("overview: what there is, what is held, for how long it lasts, and each day as a line of a table", async (context) => {
  await waitOutMidnight();
  const page = await signedIn(context);
  await settled(page);
  await page.getByText("nothing spent in 30 days").waitFor();
  assert.deepEqual(await figures(page), { Available: "1,000", Reserved: "0", Lasts: "—" });
  const made = await generated(page, "Twelve seconds.");
  assert.equal(made.usage.credits, 15);
  const { body: held } = await ask(page, "POST", "/audio/generations", { model: "svc-audio-1.0", prompt: "Endless." });
  // 835 are left; 15 went in 30 days.
  await eventually("it is counted", async () => {
    await page.reload();
    await settled(page);
    return (await figures(page)).Lasts === "1,670 days";
  });
  assert.deepEqual(await figures(page), { Available: "835", Reserved: "150", Lasts: "1,670 days" });
  await page.getByText("at the pace of the last 30 days").waitFor();

  const title = "Credits a day (UTC)";
  const today = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" }).format(new Date());
  await page.getByRole("img", { name: `${title}. The same as a table: choose Table.` }).waitFor();
  await page.locator(".chart .bar").last().hover();
  const said = page.locator(".chart figcaption");
  await said.getByText(`${today}: 15 credits, `).waitFor();
  await said.getByText("still being counted").waitFor();
  await choose(page, "Table");
  const table = await lines(page, title);
  assert.equal(table.length, 30);
  assert.match(table[0][1], /^[12]$/, "the one that is held counts as soon as it is rolled up");
  assert.deepEqual([table[0][0], table[0][2]], [`${today} (still being counted)`, "15"]);
  assert.deepEqual(table.slice(1).map(([, ...rest]) => rest), Array(29).fill(["0", "0"]));
  await choose(page, "Chart");
  await page.getByRole("img", { name: title }).waitFor();
  assert.equal((await ask(page, "POST", `/audio/generations/${held.id}/cancel`)).status, 200);
});

test("usage: bars are dashed from where it is complete to, and whole when that has moved on", async (context) => {
  await waitOutMidnight();
  // While nothing is rolled up a movement of four days ago is the first that is not counted.
  await control("/worker/freeze");
  context.after(() => control("/worker/thaw"));
  const email = await newUser();
  await control("/sql", `UPDATE ledger SET created_at=created_at - INTERVAL 4 DAY WHERE ${belongsTo(email)}`);
  const page = await signedIn(context, { user: email, path: "usage?span=7" });
  const dashes = () => page.locator(".chart .bar").evaluateAll((bars) => bars.map((bar) => getComputedStyle(bar).strokeDasharray !== "none"));
  await page.locator(".chart .bar").nth(6).waitFor({ state: "attached" });
  // A line of a minute before midnight may still be written, so that day is open, too, for a while.
  const first = (await dashes()).indexOf(true);
  assert.ok(first === 1 || first === 2, `${await dashes()}`);
  assert.deepEqual(await dashes(), Array.from({ length: 7 }, (_, index) => index >= first));
  await page.mouse.move(0, 0);  // A day that is pointed at is told of instead.
  await page.getByText("dashed: still being counted").waitFor();
  const day = (ago) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);
  const { body: answer } = await ask(page, "GET", `/usage?bucket=day&from=${day(6)}T00:00:00Z&to=${day(0)}T00:00:00Z`);
  const told = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" })
    .format(new Date(answer.complete_to));
  await page.getByText(`Complete to ${told}.`).waitFor();
  await choose(page, "Table");
  assert.equal((await lines(page, "Credits by day (UTC)")).filter(([day]) => day.endsWith("(still being counted)")).length, 7 - first);

  await control("/worker/thaw");
  await eventually("today alone is open", async () => {
    await page.reload();
    await settled(page);
    return (await dashes()).filter((dashed) => dashed).length === 1;
  });
  assert.equal((await dashes()).at(-1), true);
});

test("billing: whom to ask for credits, and what was available after each movement", async (context) => {
  const page = await signedIn(context);
  await generated(page, "Twelve seconds.");
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: base });
  await open(page, "billing");
  assert.deepEqual(await figures(page), { Available: "985", Reserved: "0", Plan: "Paid" });
  await page.getByText(`Ask your operator for credits for ${page.email}.`).waitFor();
  await copy(page, "Copy the address");
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), page.email);
  assert.equal(await page.getByRole("columnheader").last().textContent(), "Available after");
  // What, charged, available, reserved, available after.
  assert.deepEqual((await lines(page, "Lines of the ledger")).map(([, ...rest]) => rest), [
    ["Settled", "15", "+135", "−150", "985"],
    ["Reserved", "0", "−150", "+150", "850"],
    [`Credits added bonus, test-${page.email}`, "0", "+1,000", "0", "1,000"],
  ]);
});

test("usage as CSV: what was generated and what it cost, by day and voice", async (context) => {
  await waitOutMidnight();
  const page = await signedIn(context);
  await generated(page, "Twelve seconds.", { voice: "atlas" });
  await generated(page, "Twelve more.", { voice: "atlas" });
  await generated(page, "Twelve by nobody named.");
  await eventually("all three are counted", async () => {
    await open(page, "usage?by=voice");
    return (await figures(page)).Credits === "45";
  });
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "CSV" }).click()]);
  const [names, ...rows] = (await readFile(await download.path(), "utf8")).trimEnd().split(/\r?\n/);
  const day = (later) => `${new Date(Date.now() + later * 86_400_000).toISOString().slice(0, 10)}T00:00:00`;
  assert.equal(names, "start,end,voice,generations,succeeded,failed,canceled,audio_seconds,credits");
  assert.deepEqual(rows.map((line) => line.replaceAll(/:00(\.0+)?Z/g, ":00")).sort(), [
    `${day(0)},${day(1)},,1,1,0,0,12.000,15`, `${day(0)},${day(1)},atlas,2,2,0,0,24.000,30`,
  ]);
  assert.deepEqual(page.faults, []);
});

test("billing: older lines and the newest again, in the address", async (context) => {
  const page = await signedIn(context, { user: await newUser({ credits: 5000 }) });
  // Two lines each, and the one of the credits: three more than a page has.
  for (let number = 0; number < 26; number += 1) {
    const made = await ask(page, "POST", "/audio/generations", { model: "svc-audio-1.0", prompt: `Number ${number}.` });
    assert.equal(made.status, 202);
  }
  await eventually("all have ended", async () => (await creditsOf(page)).reserved === 0);
  await open(page, "billing");
  const ledger = () => lines(page, "Lines of the ledger");
  const first = await ledger();
  assert.equal(first.length, 50);
  const newest = page.getByRole("button", { name: "Newest" });
  const older = page.getByRole("button", { name: "Older" });
  assert.equal(await newest.count(), 0);
  await older.click();
  await newest.waitFor();
  await page.getByText(`test-${page.email}`).waitFor();
  const last = await ledger();
  assert.equal(last.length, 3);
  assert.deepEqual(last[2].slice(1), [`Credits added bonus, test-${page.email}`, "0", "+5,000", "0", "5,000"]);
  assert.deepEqual(last[1].slice(1), ["Reserved", "0", "−150", "+150", "4,850"]);
  assert.equal(await older.count(), 0);
  assert.match(page.url(), /[?&]cursor=/);
  await page.reload();
  await settled(page);
  assert.deepEqual(await ledger(), last);
  await newest.click();
  await older.waitFor();
  await eventually("the newest are there", async () => (await ledger()).length === 50);
  assert.deepEqual(await ledger(), first);
  assert.ok(!page.url().includes("cursor="));
  await page.goBack();
  await eventually("back goes back", async () => (await ledger()).length === 3);
  assert.deepEqual(page.faults, []);
});

// --- the history

test("history: from a day, to a day, both included, in the address", async (context) => {
  await waitOutMidnight();
  // Where each day has as many hours as the others, and begins when the test believes it does.
  const page = await signedIn(context, { timezoneId: "UTC" });
  await generated(page, "Three days ago.");
  await control("/sql", `UPDATE ledger SET created_at=created_at - INTERVAL 3 DAY WHERE ${belongsTo(page.email)}`);
  await generated(page, "Today.");
  const day = (ago) => page.evaluate((then) => {
    const at = new Date(then);
    return [at.getFullYear(), at.getMonth() + 1, at.getDate()].map((part) => String(part).padStart(2, "0")).join("-");
  }, Date.now() - ago * 86_400_000);
  await open(page, "history");
  const from = page.getByLabel("From", { exact: true });
  const to = page.getByLabel("To", { exact: true });
  const shows = (...wanted) => eventually(`it shows ${wanted}`, async () =>
    JSON.stringify(await page.locator("a.row-main").allTextContents()) === JSON.stringify(wanted));
  await shows("Today.", "Three days ago.");
  await from.fill(await day(2));
  await shows("Today.");
  await from.fill(await day(3));
  await shows("Today.", "Three days ago.");
  await to.fill(await day(1));
  await shows("Three days ago.");
  assert.ok(page.url().endsWith(`?from=${await day(3)}&to=${await day(1)}`), page.url());
  await to.fill(await day(3));
  await shows("Three days ago.");
  await page.reload();
  await shows("Three days ago.");
  assert.deepEqual([await from.inputValue(), await to.inputValue()], [await day(3), await day(3)]);
  await to.fill("");
  await from.fill("");
  await shows("Today.", "Three days ago.");
  assert.deepEqual(page.faults, []);
});

// --- keys and ways in

const row = (page, name) => page.getByRole("listitem").filter({ hasText: name });

test("keys: another name, under which the same secret works", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  const secret = await makeKey(page, "before");
  await page.getByRole("button", { name: "Rename before" }).click();
  const dialog = page.getByRole("dialog", { name: "Rename the key" });
  assert.equal(await dialog.getByRole("textbox", { name: "Name" }).inputValue(), "before");
  await dialog.getByRole("textbox", { name: "Name" }).fill(" ");
  await dialog.getByRole("button", { name: "Rename" }).click();
  await dialog.getByText("Give it a name.").waitFor();
  await dialog.getByRole("textbox", { name: "Name" }).fill(" after & <b>since</b> ");
  await dialog.getByRole("button", { name: "Rename" }).click();
  await dialog.waitFor({ state: "detached" });
  await row(page, "after & <b>since</b>").waitFor();
  assert.equal(await row(page, "before").count(), 0);
  assert.deepEqual((await ask(page, "GET", "/account/keys")).body.data.map(({ name }) => name), ["after & <b>since</b>"]);
  assert.equal(await statusWith(secret), 200);
  assert.deepEqual(page.faults, []);
});

/** The status that a bearer key gets which makes another one. */
async function makesKeys(key) {
  const answer = await fetch(`${base}/api/v1/account/keys`, {
    method: "POST", headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" }, body: JSON.stringify({ name: "by a key" }),
  });
  return answer.status;
}

test("keys that manage keys: made at once after a sign-in, and after another sign-in when that was long ago", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  const make = async (name) => {
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByRole("textbox", { name: "Name" }).fill(name);
    await page.getByRole("checkbox", { name: "manage" }).check();
    await page.getByRole("button", { name: "Make the key" }).click();
  };
  const shownOnce = async () => {
    const secret = await page.getByRole("region", { name: "The key" }).textContent();
    await page.getByRole("button", { name: "I saved it" }).click();
    return secret;
  };
  await make("at once");
  const first = await shownOnce();
  await row(page, "at once").locator(".badge", { hasText: /^manage$/ }).waitFor();
  assert.equal(await makesKeys(first), 201);
  assert.equal(await makesKeys(await makeKey(page, "not this one")), 403);

  await control("/sql", `UPDATE sessions SET created_at=created_at - INTERVAL 11 MINUTE WHERE ${belongsTo(page.email)}`);
  const refused = page.waitForResponse((answer) => answer.request().method() === "POST" && answer.url().endsWith("/account/keys"));
  await make("later");
  assert.equal((await refused).status(), 403);
  const sheet = page.getByRole("dialog", { name: "Confirm that it is you" });
  await sheet.getByText("Use a sign-in link").click();
  await sheet.getByLabel("Sign-in link").fill(await loginLink(page.email));
  await sheet.getByRole("button", { name: "Sign in with the link" }).click();
  await sheet.waitFor({ state: "detached" });
  const second = await shownOnce();
  await row(page, "later").locator(".badge", { hasText: /^manage$/ }).waitFor();
  assert.equal(await makesKeys(second), 201);
  const { body: { data } } = await ask(page, "GET", "/account/keys");
  assert.equal(data.filter(({ name }) => name === "later").length, 1, "what was refused was made once");
  assert.deepEqual(page.faults, []);
});

test("a first password takes a fresh sign-in by the service's clock, not the browser's; a wrong current one is told at its field", async (context) => {
  const page = await signedIn(context);
  const age = () => control("/sql", `UPDATE sessions SET created_at=created_at - INTERVAL 11 MINUTE WHERE ${belongsTo(page.email)}`);
  await age();
  await page.clock.setFixedTime(Date.now() - 3_600_000);
  await open(page, "settings");
  await page.getByLabel("Password").fill("correct horse and some staples");
  await page.getByRole("button", { name: "Set a password" }).click();
  const sheet = page.getByRole("dialog", { name: "Confirm that it is you" });
  await sheet.getByText("Use a sign-in link").click();
  await sheet.getByLabel("Sign-in link").fill(await loginLink(page.email));
  await sheet.getByRole("button", { name: "Sign in with the link" }).click();
  await page.getByText("Saved. Other sessions have ended.").waitFor();

  await age();
  const before = page.getByLabel("Current password");
  const wanted = page.getByLabel("New password");
  await before.fill("wrong horse and some staples");
  await wanted.fill("correct horse and other staples");
  await page.getByRole("button", { name: "Change the password" }).click();
  await page.getByText("current_password is not the one in force.").waitFor();
  assert.deepEqual([await before.getAttribute("aria-invalid"), await wanted.getAttribute("aria-invalid")], ["true", null]);
  await before.fill("correct horse and some staples");
  await wanted.fill(page.email);
  await page.getByRole("button", { name: "Change the password" }).click();
  await eventually("it is the new one that is wrong", async () => (await wanted.getAttribute("aria-invalid")) === "true");
  assert.equal(await before.getAttribute("aria-invalid"), null);
  assert.deepEqual(page.faults, []);
});

test("the id of a request that was refused is copied, as it was answered", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: base });
  await makeKey(page, "gone elsewhere");
  const { body: { data: [{ id }] } } = await ask(page, "GET", "/account/keys");
  await page.getByRole("button", { name: "Delete gone elsewhere" }).click();
  assert.equal((await ask(page, "DELETE", `/account/keys/${id}`)).status, 204);
  const refused = page.waitForResponse((answer) => answer.request().method() === "DELETE");
  await page.getByRole("button", { name: "Delete the key" }).click();
  const answer = await refused;
  assert.equal(answer.status(), 404);
  const alert = page.getByRole("alert");
  await alert.getByText("It was not deleted.").waitFor();
  const requestId = answer.headers()["x-request-id"];
  assert.equal(await alert.locator("code").textContent(), requestId);
  await copy(alert, "Copy id");
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), requestId);
});

test("keys: one that ends by itself, until it has; one that nobody has used for a month", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("for a week");
  await page.getByLabel("Expires").selectOption("In 7 days");
  await page.getByRole("button", { name: "Make the key" }).click();
  const secret = await page.getByRole("region", { name: "The key" }).textContent();
  await page.getByRole("button", { name: "I saved it" }).click();
  await row(page, "for a week").getByText("expires in 7 days").waitFor();
  const idle = await makeKey(page, "idle");
  await row(page, "idle").getByText("never used").waitFor();
  await row(page, "idle").getByText("never expires").waitFor();
  assert.deepEqual([await statusWith(secret), await statusWith(idle)], [200, 200]);
  const { body: { data } } = await ask(page, "GET", "/account/keys");
  const lives = Date.parse(data.find(({ name }) => name === "for a week").expires_at) - Date.parse(data.find(({ name }) => name === "for a week").created_at);
  assert.ok(Math.abs(lives - 7 * 86_400_000) < 60_000, `${lives} ms`);
  await eventually("their use is written down", async () =>
    (await ask(page, "GET", "/account/keys")).body.data.every(({ last_used_at: at }) => at !== null));
  await open(page, "keys");
  assert.equal(await page.getByText("unused 30 days").count(), 0);

  for (const [column, name, days] of [["last_used_at", "for a week", 29], ["last_used_at", "idle", 31], ["expires_at", "for a week", 8]]) {
    await control("/sql", `UPDATE api_keys SET ${column}=${column} - INTERVAL ${days} DAY WHERE name='${name}' AND ${belongsTo(page.email)}`);
  }
  await open(page, "keys");
  await row(page, "idle").getByText("used 31 days ago").waitFor();
  await row(page, "idle").locator(".badge", { hasText: "unused 30 days" }).waitFor();
  await row(page, "for a week").locator(".badge", { hasText: /^expired \d+ \w+ \d{4}, \d\d:\d\d$/ }).waitFor();
  assert.equal(await row(page, "for a week").getByText("unused 30 days").count(), 0, "it was used 29 days ago");
  await eventually("it is refused", async () => (await statusWith(secret)) === 401);
  assert.equal(await statusWith(idle), 200);
});

test("a sign-in link whose time is over says so, and the next one signs in where it is pasted", async (context) => {
  const email = await newUser();
  const link = await loginLink(email);
  await control("/sql", `UPDATE login_links SET expires_at=UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE ${belongsTo(email)}`);
  const page = await newPage(context);
  await follow(page, link);
  await page.getByRole("alert").getByText("This sign-in link was used before, or is older than ten minutes. Ask your operator for a new one.").waitFor();
  assert.equal(await page.getByRole("button", { name: "Sign in with this link" }).count(), 0);
  assert.equal((await ask(page, "GET", "/account")).status, 401);
  assert.ok(!page.url().includes("#"));
  await page.getByText("Use a sign-in link").click();
  await page.getByLabel("Sign-in link").fill(await loginLink(email));
  await page.getByRole("button", { name: "Sign in with the link" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  assert.equal((await ask(page, "GET", "/sessions/current")).body.email, email);
  assert.deepEqual(page.faults, []);
});

test("another mail address where no mail is sent: who changes it, and how", async (context) => {
  const page = await signedIn(context, { path: "settings" });
  const card = page.getByRole("region", { name: "Mail address" });
  await card.getByText("Your operator changes it").waitFor();
  assert.equal(await page.getByLabel("New mail address").count(), 0);
  const command = await card.locator("code").textContent();
  const next = `${randomUUID()}@example.com`;
  const [program, ...words] = command.replace("…", next).split(" ");
  assert.equal(program, "audio-api");
  assert.equal(words.shift(), "admin");
  await admin(...words);
  // A tab knows by the account whose it is, so it stays.
  await page.reload();
  await page.getByText(next).first().waitFor();
  await open(page, "settings");
  await page.getByText(`You are signed in as ${next}.`).waitFor();
});

// --- where things are found

test("the first run: skipped it is gone, and found again under Help", async (context) => {
  const page = await signedIn(context);
  const offer = page.getByRole("region", { name: "From a key to a sound" });
  await offer.getByText("You find it again under Help.").waitFor();
  await offer.getByRole("button", { name: "Skip" }).click();
  await offer.waitFor({ state: "detached" });
  await page.reload();
  await settled(page);
  assert.equal(await offer.count(), 0);
  await page.getByRole("button", { name: "Help and shortcuts" }).click();
  await page.getByRole("dialog", { name: "Help" }).getByRole("link", { name: "First run: from a key to a sound" }).click();
  await page.getByRole("heading", { level: 1, name: "From a key to a sound" }).waitFor();
  assert.equal(await page.getByRole("dialog").count(), 0);
  assert.equal(page.url(), `${consoleUrl}start`);
  await page.getByRole("button", { name: "Make a key" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), "H1");
});

test("on a phone the pages without a place in the bar are under More", async (context) => {
  const page = await signedIn(context, { viewport: { width: 360, height: 740 }, hasTouch: true });
  const bar = page.getByRole("navigation", { name: "Console" });
  const places = () => bar.getByRole("link").evaluateAll((links) => links.filter((link) => link.getClientRects().length > 0).map((link) => link.textContent));
  assert.deepEqual(await places(), ["Overview", "Playground", "History", "API keys"]);
  const more = page.getByRole("dialog", { name: "More" });
  for (const name of ["Usage", "Billing", "API reference", "Settings"]) {
    await bar.getByRole("button", { name: "More" }).tap();
    await more.getByText(page.email).waitFor();
    await more.getByRole("link", { name }).tap();
    await page.getByRole("heading", { level: 1, name }).waitFor();
    assert.equal(await more.count(), 0);
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), name, "the new page begins at its title");
    await bar.getByRole("button", { name: "More" }).tap();
    assert.equal(await more.locator("[aria-current=page]").textContent(), name);
    await more.getByRole("button", { name: "Close" }).tap();
    await more.waitFor({ state: "detached" });
  }
  await bar.getByRole("button", { name: "More" }).tap();
  await more.getByRole("button", { name: "Help and shortcuts" }).tap();
  const help = page.getByRole("dialog", { name: "Help" });
  await help.getByRole("link", { name: "First run: from a key to a sound" }).tap();
  await page.getByRole("heading", { level: 1, name: "From a key to a sound" }).waitFor();
  assert.equal(await page.getByRole("dialog").count(), 0);
  assert.deepEqual(page.faults, []);
});
