// How a generation is followed: by events where they come, by asking where they do not; and what is told of it meanwhile.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { ask, closeBrowser, eventually, generated, newPage, newUser, open, settled, signedIn } from "./support.mjs";

after(closeBrowser);

const events = /\/audio\/generations\/aud_[^/]+\/events$/;
const one = /\/audio\/generations\/aud_[^/]+$/;

/** Of requests that match, how they were sent. */
function watch(page, pattern) {
  const seen = [];
  page.on("request", (request) => {
    if (pattern.test(request.url())) {
      seen.push(request);
    }
  });
  return seen;
}

/** From now on the generation looks open, whatever it is. */
async function lookOpen(page, made) {
  const shown = { ...made, status: "processing", output: null, usage: null, billing: { reserved_credits: 150 } };
  await page.route(one, (route) => route.fulfill({ json: shown }));
  return shown;
}

function stream(...items) {
  const text = items.map(([type, data], index) => `id: ${index + 1}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`).join("");
  return { status: 200, headers: { "Content-Type": "text/event-stream" }, body: `retry: 3000\n\n${text}` };
}

test("a generation in the playground is followed by its events alone", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  const streams = watch(page, events);
  const reads = watch(page, one);
  await page.getByLabel("Prompt").fill("Followed.");
  await page.getByRole("button", { name: "Generate" }).click();
  await page.getByText("credits charged").waitFor();
  assert.equal(streams.length, 1);
  assert.equal(streams[0].headers()["accept"], "text/event-stream");
  assert.equal(reads.filter((request) => request.method() === "GET").length, 0);
  assert.deepEqual(page.faults, []);
});

for (const [name, answer] of [
  ["refused", (route) => route.fulfill({ status: 429, headers: { "Retry-After": "1" }, json: { error: { code: "rate_limit_exceeded", message: "m", request_id: "r" } } })],
  ["lost", (route) => route.abort("connectionreset")],
  ["a proxy's page", (route) => route.fulfill({ status: 200, contentType: "text/html", body: "<p>hello" })],
]) {
  test(`events that are ${name}: it is asked for instead`, async (context) => {
    const page = await signedIn(context, { path: "playground" });
    await page.route(events, answer);
    const reads = watch(page, one);
    await page.getByLabel("Prompt").fill("Asked for.");
    await page.getByRole("button", { name: "Generate" }).click();
    await page.getByText("credits charged").waitFor();
    assert.ok(reads.some((request) => request.headers()["prefer"] === "wait=20"));
  });
}

test("why it waits, its place and its times are told, then how it ended", async (context) => {
  const page = await signedIn(context);
  const made = await generated(page, "Told.");
  const shown = await lookOpen(page, made);
  const told = { waiting_on: "capacity", position: 3, start_in_seconds: { p50: 2.1, p90: 4.8 }, done_in_seconds: { p50: 4, p90: 9 } };
  let end = false;
  await page.route(events, (route) => route.fulfill(end ? stream(["status", made]) : stream(["status", shown], ["progress", told])));
  await open(page, `generations/${made.id}`);
  await page.getByText("Waiting for a free worker").waitFor();
  await page.getByText("Number 3 in line, begins in about 2–5 s, done in about 4–9 s.").waitFor();
  end = true;
  await page.getByText("credits charged").waitFor();
  assert.equal(await page.locator(".progress").count(), 0);
});

test("one stream in a tab; it ends when its page is left", async (context) => {
  const page = await signedIn(context);
  const made = await generated(page, "Left.");
  await lookOpen(page, made);
  let release;
  const held = new Promise((resolve) => { release = resolve; });
  context.after(() => release());
  const streams = watch(page, events);
  await page.route(events, () => held);
  await open(page, `generations/${made.id}`);
  await eventually("it is followed", () => streams.length === 1);
  const ended = page.waitForEvent("requestfailed", (request) => events.test(request.url()));
  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Usage" }).click();
  await ended;
  assert.equal(streams.length, 1);
});

test("the settings of any generation, whoever made it and wherever: told, and used again", async (context) => {
  const user = await newUser();
  const first = await signedIn(context, { user });
  const settings = { voice: "sage", output_format: "wav", sample_rate: 48000, speed: 1.25, pitch: -1.5, max_credits: 18.75, metadata: { order: "47 <b>11</b>" } };
  const made = await generated(first, "Set elsewhere.", settings);

  const page = await signedIn(context, { user });
  await open(page, `generations/${made.id}`);
  assert.equal(await page.locator(".prompt").textContent(), "Set elsewhere.");
  const facts = await page.locator(".facts").textContent();
  for (const fact of ["Voicesage", "wav, 48,000 Hz", "Speed1.25", "Pitch, semitones−1.5", "Spend at most, credits18.75", "order 47 <b>11</b>"]) {
    assert.ok(facts.includes(fact), `${fact} in ${facts}`);
  }
  const timeline = await page.locator(".timeline").textContent();
  assert.match(timeline, /^Accepted.*Attempt 1 made the audio.*Ready/);

  // As if it had failed: the same again is one press away, also after a reload.
  await page.route(one, (route) => route.fulfill({ json: {
    ...made, status: "failed", output: null, usage: null, billing: { reserved_credits: 150, charged_credits: 0, returned_credits: 150 },
    error: { code: "provider_unavailable", message: "No provider answered.", retriable: true },
  } }));
  await page.reload();
  await settled(page);
  const sent = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/audio/generations"));
  await page.getByRole("button", { name: "Retry with the same settings" }).click();
  const { model, ...body } = (await sent).postDataJSON();
  assert.deepEqual(body, { prompt: "Set elsewhere.", ...settings });
  await page.unroute(one);
  await page.getByText("credits charged").waitFor();
  assert.equal(await page.getByLabel("Prompt").inputValue(), "Set elsewhere.");
  assert.deepEqual(page.faults, []);
});

test("a setting as small as the service takes it is told to its last digit, and used again", async (context) => {
  const page = await signedIn(context);
  for (const [pitch, told] of [[5.55e-17, "0.0000000000000000555"], [-0.0001, "−0.0001"]]) {
    const made = await generated(page, "Hardly higher.", { pitch });
    await open(page, `generations/${made.id}`);
    await page.locator(".facts", { hasText: `Pitch, semitones${told}` }).waitFor();
    await page.getByText("credits charged").waitFor();
    await page.getByRole("button", { name: "Use in the playground" }).click();
    const sent = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/audio/generations"));
    await page.getByRole("button", { name: "Generate" }).click();
    assert.equal((await sent).postDataJSON().pitch, pitch);
    await page.getByText("credits charged").waitFor();
  }
  assert.deepEqual(page.faults, []);
});

test("references are told, not their addresses", async (context) => {
  const page = await signedIn(context);
  const made = await generated(page, "With a picture.");
  await page.route(/\/details$/, async (route) => {
    const answer = await route.fetch();
    const details = await answer.json();
    details.request.references = [{ param: "image_url", kind: "image" }];
    return route.fulfill({ response: answer, json: details });
  });
  await open(page, `generations/${made.id}`);
  await page.getByText("The addresses of its references are told to nobody again").waitFor();
  assert.match(await page.locator(".facts").textContent(), /Referencesimage/);
  assert.equal(await page.getByText("It cannot be retried").count(), 0, "there is nothing to retry");

  // As if it had failed, on a page that has not sent it: why there is no button to retry it is said.
  await page.route(one, (route) => route.fulfill({ json: {
    ...made, status: "failed", output: null, usage: null, billing: { reserved_credits: 150, charged_credits: 0, returned_credits: 150 },
    error: { code: "reference_unavailable", message: "A reference could not be fetched.", retriable: true },
  } }));
  await page.reload();
  await page.getByText("It cannot be retried as it was: nobody is told the addresses of its references again.").waitFor();
  assert.equal(await page.getByRole("button", { name: "Retry with the same settings" }).count(), 0);
});

test("when it would begin is part of the estimate", async (context) => {
  const page = await signedIn(context);
  await page.route(/\/audio\/estimates$/, async (route) => {
    const answer = await route.fetch({ headers: { ...route.request().headers(), "sec-fetch-site": "same-origin" } });
    return route.fulfill({ response: answer, json: { ...(await answer.json()), start_in_seconds: { p50: 3, p90: 7.5 } } });
  });
  await open(page, "playground");
  await page.getByLabel("Prompt").fill("Soon.");
  await page.getByText(/About .* credits.*begins in about 3–8 s/).waitFor();
});

test("an estimate that cannot be had just now says so, and comes by itself", async (context) => {
  const page = await signedIn(context);
  let asked = 0;
  await page.route(/\/audio\/estimates$/, (route) => {
    asked += 1;
    return asked === 1
      ? route.fulfill({ status: 429, headers: { "Retry-After": "1" }, json: { error: { code: "rate_limit_exceeded", message: "Requests are too frequent; send the next one in 1 s.", request_id: "r" } } })
      : route.continue();
  });
  await open(page, "playground");
  await page.getByLabel("Prompt").fill("Patience.");
  await page.getByText("No estimate just now. Too many requests just now.").waitFor();
  await page.getByText(/About .* credits/).waitFor();
});

test("what a person did too often counts down", async (context) => {
  const page = await signedIn(context);
  const made = await generated(page, "Not now.");
  await page.clock.install();
  await page.route(one, (route) => route.request().method() === "DELETE"
    ? route.fulfill({ status: 429, headers: { "Retry-After": "60" }, json: { error: { code: "rate_limit_exceeded", message: "m", request_id: "req_9" } } })
    : route.continue());
  await open(page, `generations/${made.id}`);
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText(/You may try again in \d\d s/).waitFor();
  await page.clock.fastForward(60_000);
  await page.getByText("You may try again now.").waitFor();
  await page.getByText("req_9").waitFor();
});

test("history by key, in the address", async (context) => {
  const page = await signedIn(context);
  const { body: key } = await ask(page, "POST", "/account/keys", { name: "by key", scopes: ["generate"] });
  await generated(page, "By the console.");
  await open(page, "history");
  await page.getByLabel("Key").selectOption("by key");
  await page.getByText("Nothing matches").waitFor();
  assert.ok(page.url().includes(`key=${key.id}`));
  await page.getByRole("button", { name: "Clear the filters" }).click();
  await page.getByText("By the console.").waitFor();
});

test("the first paint waits for two small files, and nothing else", async (context) => {
  const page = await newPage(context);
  await page.goto(`${process.env.BASE_URL}/console/`);
  await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
  const paint = await page.evaluate(() => new Promise((resolve) => {
    new PerformanceObserver((list) => {
      const entry = list.getEntries().find(({ name }) => name === "first-contentful-paint");
      if (entry !== undefined) {
        resolve(entry.startTime);
      }
    }).observe({ type: "paint", buffered: true });
  }));
  const asked = await page.evaluate(() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .map(({ name, renderBlockingStatus, startTime, responseEnd, transferSize }) => ({
      name: new URL(name).pathname.replace(/-[0-9a-f]{12}\./, "."), blocks: renderBlockingStatus === "blocking", startTime, responseEnd, transferSize,
    })));
  const before = asked.filter(({ startTime }) => startTime < paint);
  const bytes = before.reduce((sum, { transferSize }) => sum + transferSize, 0);
  // For whoever reads the log: how fast a machine is proves nothing.
  context.diagnostic(`first contentful paint: ${Math.round(paint)} ms, ${before.length} requests, ${bytes} bytes`);
  assert.deepEqual(asked.filter(({ blocks }) => blocks).map(({ name }) => name).sort(), ["/console/assets/early.js", "/console/assets/main.css"]);
  // Besides them, the page that is drawn, who asks, and what may come later.
  const needed = ["/console/", "/console/assets/early.js", "/console/assets/main.css", "/console/assets/main.js", "/console/api/v1/sessions/current"];
  const allowed = [...needed, "/console/assets/icon.svg", "/console/api/v1/sign-in"];
  assert.deepEqual(before.map(({ name }) => name).filter((name) => !allowed.includes(name)), []);
  assert.ok(before.length <= allowed.length, "each once");
  assert.ok(bytes > 10_000 && bytes < 80_000, `${bytes} bytes`);
});
