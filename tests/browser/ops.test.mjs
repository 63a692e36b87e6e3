// The operators' page: it says in words what has happened, shows nothing that is not known or not new, does nothing without the
// token, and runs nothing that somebody has written into a name. Whatever breaks is broken for real (ops_test.cc).
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, test } from "node:test";
import { base, closeBrowser, control, eventually, launch, limit, newPage, violations } from "./support.mjs";

after(closeBrowser);

const opsUrl = `${base}/ops`;
const token = "the-token-of-the-operators-0123456789";

async function opened(context, options) {
  const page = await newPage(context, options);
  await page.goto(opsUrl);
  return page;
}

const head = (page) => page.locator("#verdict").innerText();

/** Waits until the head of the page says it, and tells how long that took: five seconds are promised, on a machine that is not busy. */
async function says(context, page, pattern, within = limit) {
  const began = Date.now();
  try {
    await eventually(String(pattern), async () => pattern.test(await head(page)), within);
  } catch {
    assert.fail(`it never said ${pattern}, but: ${await head(page)}`);
  }
  context.diagnostic(`${pattern} after ${((Date.now() - began) / 1000).toFixed(1)} s`);
}

/** So many creations of the one user, all of which are accepted, some of them when the API has found its database again. */
async function create(times) {
  for (let i = 0; i < times; ++i) {
    const key = randomUUID();
    await eventually("it is accepted", async () => {
      const response = await fetch(`${process.env.API_URL}/audio/generations`, {
        method: "POST",
        headers: { Authorization: `Bearer ${process.env.USER_KEY}`, "Content-Type": "application/json", "Idempotency-Key": key },
        body: JSON.stringify({ model: "svc-audio-1.0", output_format: "wav", prompt: "One of many." }),
      });
      assert.ok([202, 503].includes(response.status), await response.text());
      return response.status === 202;
    });
  }
}

// --- what happens is told in words

test("it is healthy, and says so", async (context) => {
  const page = await opened(context);
  await says(context, page, /^Healthy$/m);
  assert.match(await page.title(), /Healthy/);
  await page.locator("#workers tbody tr").nth(1).waitFor();
  assert.match(await page.locator("#apis").innerText(), /alive/);
  assert.deepEqual(page.faults, []);
});

test("a worker that is frozen, and one that is killed", async (context) => {
  const page = await opened(context);
  await says(context, page, /^Healthy$/m);
  const frozen = await control("/worker/0/pid");
  await control("/worker/0/freeze");
  await says(context, page, new RegExp(`worker \`[^\`]*:${frozen}\` not heard of for \\d+ s`));
  await says(context, page, new RegExp(`:${frozen} has not been heard of .* killed, frozen, or cut off`));
  assert.match(await page.locator("#workers").innerText(), /silent/);
  await control("/worker/0/thaw");
  await eventually("it is heard of again", async () => !(await head(page)).includes(`:${frozen}`));
  const killed = await control("/worker/1/pid");
  await control("/worker/1/kill");
  await says(context, page, new RegExp(`worker \`[^\`]*:${killed}\` not heard of for \\d+ s`));
  await control("/workers/add");
});

test("the broker is killed, and comes back", async (context) => {
  const page = await opened(context);
  await page.locator("#workers tbody tr").first().waitFor();
  await control("/broker/kill");
  await says(context, page, /Broker away/);
  await control("/broker/start");
  await eventually("it is back", async () => !(await head(page)).includes("Broker away"));
});

test("the database is killed: nothing old is shown as new", async (context) => {
  const page = await opened(context);
  await page.locator("#workers tbody tr").first().waitFor();
  await control("/database/kill");
  await says(context, page, /The database (does not answer|is slow)/);
  await says(context, page, /Last heard .* ago/);
  await page.locator("#tiles[data-stale]").waitFor();
  assert.match(await page.locator("#tiles .age").innerText(), /^\d+ s old$/);
  assert.deepEqual(await violations(page), []);
  await control("/database/start");
  await eventually("it is back", async () => !(await head(page)).includes("database"));
  await page.locator("#tiles:not([data-stale])").waitFor();
});

test("a provider fails", async (context) => {
  const page = await opened(context);
  await page.locator("#providers tbody tr").first().waitFor();
  await control("/provider/fails");
  await create(12);
  await says(context, page, /[Pp]rovider [`]?primary[`]? (is open|open|is half open|half open|fails calls)/);
  await control("/provider/serves");
});

test("one user has a backlog", async (context) => {
  const page = await opened(context);
  await control("/provider/hangs");
  await create(40);
  // Who is heaviest is looked at every 30 s at least; more often where it costs the database little.
  await says(context, page, new RegExp(`One user has most of what is open: ${process.env.USER_ID}`), 90_000);
  assert.match(await page.locator("#users").innerText(), new RegExp(process.env.USER_ID));
});

test("a task is found by its user's mail, and its story is told in lanes", async (context) => {
  const page = await opened(context);
  await page.getByRole("searchbox").fill(process.env.USER_MAIL);
  await page.keyboard.press("Enter");
  await page.locator("#found a").first().click();
  await page.locator("#lanes").getByText("150 reserved").waitFor();
  assert.match(await page.locator("#story-h").innerText(), /^aud_\w+: \w+$/);
  assert.match(page.url(), /#aud_\w+$/);
  await page.reload();
  await page.locator("#lanes").getByText("150 reserved").waitFor();
});

test("an action for real: intake is paused, which the page says, and resumed", async (context) => {
  const page = await opened(context);
  await unlock(page);
  for (const [name, done] of [["Pause intake", "Paused"], ["Resume intake", "Resumed"]]) {
    await page.locator("#apis").getByRole("button", { name }).click();
    const question = page.getByRole("dialog", { name });
    await question.getByLabel(/Why/).fill("the test wants it");
    await question.getByRole("button", { name }).click();
    await question.getByText(`Done: ${done}`).waitFor();
    await question.getByRole("button", { name: "Close" }).click();
    if (name === "Pause intake") {
      await says(context, page, /Intake (is )?paused .*the test wants it/);
    }
  }
  await page.locator("#actions tbody tr").nth(1).waitFor();
  assert.match(await page.locator("#actions tbody").innerText(), /resume_intake[^]*pause_intake/);
  await eventually("it is taken up again", async () => !(await head(page)).includes("ntake"));
});

test("what came of one action is not told of the next", async (context) => {
  const page = await opened(context);
  await unlock(page);
  let answer;
  const held = new Promise((resolve) => { answer = resolve; });
  const sent = [];
  await page.route(/\/ops\/actions$/, async (route) => {
    if (route.request().method() !== "POST") {
      return route.continue();
    }
    sent.push(route.request().postDataJSON().action);
    if (sent.length === 1) {
      await held;
      return route.fulfill({ json: { done: true, detail: "of the first" } });
    }
    return route.fulfill({ json: { done: true, detail: "of the second" } });
  });
  await page.locator("#apis").getByRole("button", { name: "Pause intake" }).click();
  const first = page.getByRole("dialog", { name: "Pause intake" });
  await first.getByLabel(/Why/).fill("the test wants it");
  await first.getByRole("button", { name: "Pause intake" }).click();
  await eventually("it was sent", async () => sent.length === 1);
  await first.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: "Disable a key" }).click();
  const second = page.getByRole("dialog", { name: "Disable a key" });
  answer();
  await page.locator("#target").fill("svc_live_abcd");
  await second.getByLabel(/Why/).fill("another thing");
  assert.equal(await second.getByText("of the first").count(), 0);
  await second.getByRole("button", { name: "Disable a key" }).click();
  await second.getByText("Done: of the second").waitFor();
  assert.deepEqual(sent, ["pause_intake", "disable_key"]);
});

test("what was not done is told though another action is asked for", async (context) => {
  const page = await opened(context);
  await unlock(page);
  let answer;
  const held = new Promise((resolve) => { answer = resolve; });
  let sent = false;
  await page.route(/\/ops\/actions$/, async (route) => {
    if (route.request().method() !== "POST") {
      return route.continue();
    }
    sent = true;
    await held;
    return route.fulfill({ status: 503, json: { error: "no database" } });
  });
  await page.locator("#apis").getByRole("button", { name: "Pause intake" }).click();
  const first = page.getByRole("dialog", { name: "Pause intake" });
  await first.getByLabel(/Why/).fill("the test wants it");
  await first.getByRole("button", { name: "Pause intake" }).click();
  await eventually("it was sent", async () => sent);
  await first.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: "Disable a key" }).click();
  const second = page.getByRole("dialog", { name: "Disable a key" });
  answer();
  await page.getByText("Pause intake: Not done (503): no database").waitFor({ state: "attached" });
  assert.equal(await second.getByText("Not done").count(), 0);
});

test("the API process is killed, and comes back", async (context) => {
  const page = await opened(context);
  await page.locator("#workers tbody tr").first().waitFor();
  await control("/api/kill");
  await says(context, page, /This API process does not answer/);
  await page.locator("#tiles[data-stale]").waitFor();
  await control("/api/start");
  await eventually("it is back", async () => !(await head(page)).includes("does not answer"));
  await control("/provider/serves");
});

// --- what is shown, of answers made up here

const markup = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
const at = (value) => ({ value, exact: true });
const known = (more = {}) => ({
  as_of: new Date().toISOString(), verdict: "Healthy", health: "healthy",
  tiles: { oldest_waiting_seconds: 0, ready: at(0), running: at(3), waiting_retry: at(0), parked: at(0), done_per_minute: 40, failed_per_minute: 0, drain_seconds: 0, credits_held: "450", dead: 0 },
  providers: [{ name: "primary", state: "ready", since: null, in_flight: 3, limit: 8, waiting: 0, workers: 1, workers_ready: 1, p50_seconds: 1, p99_seconds: 2, errors: {}, fallback_share: 0, paid_not_delivered: 0, override: null }],
  workers: [{ id: "wrk_1", host: "h", pid: 7, version: "1", state: "working", in_flight: 3, places: 8, renewal_lag_seconds: 0, seen_seconds: 0, started_at: new Date().toISOString() }],
  apis: [{ id: "api_1", alive: true, seen_seconds: 0, unsent_seconds: 0, refused_share: 0 }],
  stuck: { older_than_seconds: 120, whole: true, causes: [], tasks: [] }, failures: [], users: [], intake_paused: null, ...more,
});
const stuckTask = { id: "aud_01k0000000000000000000000a", user: "usr_1", status: "queued", cause: "a provider", age_seconds: 200, claims: 1, worker: null };
const points = Array.from({ length: 40 }, (_, i) => ({
  at: new Date(Date.now() - (40 - i) * 60_000).toISOString(), arrivals: i, completions: 40 - i, failed: { provider_unavailable: i % 5, [markup]: 1 },
  wait_p50: 0.1, wait_p99: i, run_p50: 1, run_p99: null, credits: "12.5",
}));

/** Every answer of the page is made up: `answers` by path, each a function or a value; else what there is when all is well. */
async function pretending(context, answers = {}, options = {}) {
  const page = await newPage(context, options);
  page.asked = [];
  await page.route(/\/ops\/|\/readyz$/, (route) => {
    const { pathname } = new URL(route.request().url());
    page.asked.push(`${route.request().method()} ${route.request().url()}`);
    const answer = answers[pathname] ?? { "/ops/now": () => known(), "/ops/history": { range: "1h", step_seconds: 60, points } }[pathname];
    const value = typeof answer === "function" ? answer(route.request()) : answer;
    return value === undefined ? route.fulfill({ status: 404, body: "" }) : "status" in value ? route.fulfill(value) : route.fulfill({ json: value });
  });
  await page.goto(opsUrl);
  await page.locator("#workers .unknown, #workers tbody tr").first().waitFor();
  return page;
}

const sideways = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

/** As much as there can be, with words that are long. */
const everything = () => known({
  verdict: "Falling behind: arrivals 42/s, completions 31/s, provider `primary` open", health: "troubled",
  tiles: { ...known().tiles, oldest_waiting_seconds: 70, ready: { value: 20_000, exact: false }, parked: at(6000), credits_held: "3918150.5", dead: 2 },
  providers: [{ ...known().providers[0], name: "a-provider-with-quite-a-long-name-that-never-ends", state: "open", since: new Date().toISOString(), errors: { timeout: 30, server_error: 2 }, override: { state: "open", until: null } }],
  workers: ["working", "draining", "lost", "drained"].map((state, i) => ({ ...known().workers[0], id: `wrk_01k000000000000000000000${i}`, host: "a-host.with-a-long-name.in-some-region.example.internal", state, seen_seconds: i + 3 })),
  stuck: { older_than_seconds: 120, whole: false, causes: [{ cause: "a provider", tasks: 3 }], tasks: [stuckTask] },
  failures: [{ code: "provider_unavailable", provider: "primary", tasks: 4 }],
  users: [{ user: "usr_01k00000000000000000000000", mail: `${"long".repeat(20)}@example.com`, open: 26_000, running: 1, share: 0.5 }],
});
const story = {
  "/ops/find": { tasks: [{ id: stuckTask.id, user: "usr_1", status: "queued", created_at: new Date().toISOString() }] },
  "/ops/task": { task: { ...stuckTask, created_at: new Date().toISOString() },
    events: ["client", "api", "money", "queue", "worker", "provider"].map((lane, i) => ({ at: new Date(Date.now() + i * 400).toISOString(), lane, what: `what the ${lane} did`, detail: markup, worker: null })) },
  "/ops/actions": (request) => request.headers().authorization === `Bearer ${token}` ? { actions: [] } : { status: 401, json: { error: "no" } },
};

async function unlock(page, typed = token) {
  await page.getByRole("button", { name: "Unlock actions" }).click();
  await page.getByLabel("OPS_TOKEN").fill(typed);
  await page.keyboard.press("Enter");
}

async function openStory(page) {
  await page.getByRole("searchbox").fill("x");
  await page.keyboard.press("Enter");
  await page.locator("#lanes li").nth(5).waitFor();
}

test("names full of markup are text", async (context) => {
  const page = await pretending(context, { ...story,
    "/ops/now": () => known({
      verdict: `Trouble: provider \`${markup}\` open`, health: "troubled",
      providers: [{ ...known().providers[0], name: markup, state: markup, errors: { [markup]: 3 } }],
      workers: [{ ...known().workers[0], host: markup, version: markup, seen_seconds: 9 }],
      apis: [{ ...known().apis[0], id: markup }],
      stuck: { older_than_seconds: 120, whole: true, causes: [{ cause: markup, tasks: 1 }], tasks: [{ ...stuckTask, user: markup, cause: markup }] },
      failures: [{ code: markup, provider: markup, tasks: 1 }],
      users: [{ user: markup, mail: markup, open: 40, running: 1, share: 0 }],
      intake_paused: { since: new Date().toISOString(), by: markup, reason: markup },
    }) });
  await openStory(page);
  for (const id of ["verdict", "providers", "workers", "apis", "stuck", "failures", "users", "lanes", "charts"]) {
    assert.ok((await page.locator(`#${id}`).textContent()).includes(markup), id);
  }
  assert.equal(await page.locator("body img, main script, header script").count(), 0);
  assert.ok(!/^owned/.test(await page.title()));
  assert.deepEqual(page.faults, []);
  // And nothing of the page could set markup if it wanted to.
  assert.match(await page.evaluate(() => {
    try {
      document.body.innerHTML = "<b>x</b>";
      return "it could";
    } catch (error) {
      return String(error);
    }
  }), /TypeError/);
});

test("what is not known is unknown, and never 0", async (context) => {
  const nothing = Object.fromEntries(Object.keys(known()).map((name) => [name, null]));
  const page = await pretending(context, { "/ops/history": { range: "1h", step_seconds: 60, points: [] },
    "/ops/now": () => ({ ...nothing, as_of: new Date().toISOString(), verdict: "Trouble", health: "troubled", tiles: {} }) });
  await says(context, page, /Trouble/);
  assert.deepEqual([...new Set(await page.locator("#figures dd").allInnerTexts())], ["unknown"]);
  for (const id of ["providers", "workers", "apis", "stuck", "failures", "users"]) {
    assert.match(await page.locator(`#${id}`).innerText(), /unknown/, id);
  }
  assert.ok(!/\b0\b/.test((await page.locator("#charts .legend").allInnerTexts()).join()));
  const halves = await pretending(context, { "/ops/now": () => known({
    workers: [{ id: "wrk_1", host: null, state: "working" }], providers: [{ name: "p", state: "ready", errors: null }],
  }) });
  await halves.locator("#providers tbody tr").waitFor();
  assert.ok(!/\b0\b/.test(await halves.locator("#workers tbody").innerText()));
  assert.ok(!/\b0\b/.test(await halves.locator("#providers tbody").innerText()));
});

test("busy is a warning; with trouble beside it, trouble", async (context) => {
  for (const [more, tone] of [["", "warn"], [", provider `primary` open", "bad"]]) {
    const page = await pretending(context, { "/ops/now": () => known({ verdict: `Busy: 1,230+ wait, all 40 places are taken${more}`, health: more ? "troubled" : "busy" }) });
    await says(context, page, /Busy/);
    assert.equal(await page.locator("#verdict").getAttribute("data-tone"), tone);
    await page.close();
  }
});

test("numbers that do not move are old, however often they are answered", async (context) => {
  const still = known();
  const page = await pretending(context, { "/ops/now": () => still });
  await says(context, page, /Healthy/);
  await page.locator("#tiles[data-stale]").waitFor();
  assert.match(await head(page), /numbers are old/);
  assert.match(await page.locator("#workers .age").innerText(), /^\d+ s old$/);
  assert.equal(await page.locator("#verdict").getAttribute("data-tone"), "warn");
});

test("an answer that never comes: which of both does not answer is asked of /readyz", async (context) => {
  for (const [ready, words] of [[{ ready: false, database: false }, /The database does not answer/], [{ ready: true, database: true }, /The database is slow/], [undefined, /This API process does not answer: it hangs/]]) {
    const page = await newPage(context);
    await page.route(/\/ops\//, () => undefined);
    await page.route(/\/readyz$/, (route) => ready === undefined ? undefined : route.fulfill({ status: 503, json: ready }));
    await page.goto(opsUrl);
    await says(context, page, words);
    assert.match(await head(page), /Nothing was heard/);
    await page.close();
  }
});

test("it is read out when it says something else, not when a number moves", async (context) => {
  let rate = 40, trouble = true;
  const page = await pretending(context, { "/ops/now": () => known(trouble
    ? { verdict: `Falling behind: arrivals ${rate++}/s, completions 3.1/s`, health: "troubled" } : {}) });
  await page.evaluate(() => {
    window.seen = { announced: [document.querySelector("#announced").textContent], sentences: new Set() };
    new MutationObserver(() => window.seen.announced.push(document.querySelector("#announced").textContent))
      .observe(document.querySelector("#announced"), { childList: true, characterData: true, subtree: true });
    new MutationObserver(() => window.seen.sentences.add(document.querySelector("h1").textContent))
      .observe(document.querySelector("h1"), { childList: true, characterData: true, subtree: true });
  });
  const moved = () => page.evaluate(() => [...window.seen.sentences].filter((said) => said.startsWith("Falling behind")).length);
  await eventually("the numbers have moved", async () => (await moved()) >= 2);
  trouble = false;
  await page.locator("#announced").getByText("Healthy").waitFor({ state: "attached" });
  const said = (await page.evaluate(() => window.seen.announced)).map((one) => one.replace(/\d+/g, "#"));
  assert.ok(said.every((one, i) => i === 0 || one !== said[i - 1]), said.join("\n"));
});

test("nothing is asked while nobody looks, nor while it is paused", async (context) => {
  const page = await newPage(context);
  await page.addInitScript(() => {
    window.away = false;
    Object.defineProperty(document, "hidden", { get: () => window.away });
  });
  let asked = 0;
  await page.route(/\/ops\/now/, (route) => {
    asked += 1;
    return route.fulfill({ json: known() });
  });
  await page.goto(opsUrl);
  await eventually("it asks again and again", () => asked >= 3);
  for (const stop of [(on) => page.evaluate((away) => { window.away = away; document.dispatchEvent(new Event("visibilitychange")); }, on),
    () => page.getByRole("button", { name: "Pause" }).click()]) {
    await stop(true);
    // One may be on its way. Then the numbers grow old, which takes longer than any of its pauses.
    await page.locator("#tiles[data-stale]").waitFor();
    const before = asked;
    await eventually("a second more has gone", async () => Number.parseInt(await page.locator("#tiles .age").innerText(), 10) >= 8);
    assert.equal(asked, before);
    await stop(false);
    await eventually("it asks again", () => asked > before);
    await page.locator("#tiles:not([data-stale])").waitFor();
  }
});

test("actions: not without the token, which is kept nowhere", async (context) => {
  const sent = [];
  let answer = { done: true, detail: "what it did" };
  const page = await pretending(context, { ...story, "/ops/now": everything, "/ops/actions": (request) => {
    if (request.method() === "POST") {
      sent.push([request.headers().authorization, request.postDataJSON()]);
      return answer;
    }
    return story["/ops/actions"](request);
  } });
  await openStory(page);
  const danger = page.locator("button.danger:visible");
  assert.equal(await danger.count(), 0);
  await unlock(page, "a wrong one");
  await page.getByText("A token has no spaces").waitFor();
  await page.getByLabel("OPS_TOKEN").fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByText("That is not the token.").waitFor();
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Escape");
  assert.equal(await danger.count(), 0);
  await unlock(page);
  await page.getByRole("region", { name: "What operators did" }).waitFor();
  const row = page.locator("#stuck tbody tr");
  await row.getByRole("button", { name: "Cancel" }).click();
  const question = page.getByRole("dialog", { name: "Cancel the task" });
  await question.getByText(stuckTask.id).waitFor();
  await question.getByRole("button", { name: "Cancel the task" }).click();
  await question.getByText("Say why.").waitFor();
  assert.equal(sent.length, 0, "not without a reason");
  await question.getByLabel(/Why/).fill("it hangs");
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Enter");
  await question.getByText("Done: what it did").waitFor();
  assert.deepEqual(sent, [[`Bearer ${token}`, { action: "cancel_task", target: stuckTask.id, reason: "it hangs" }]]);
  await question.getByRole("button", { name: "Close" }).click();

  answer = { status: 409, json: { error: "there is no such provider" } };
  await page.locator("#providers").getByRole("button", { name: "Open" }).click();
  const breaker = page.getByRole("dialog", { name: "Open the breaker" });
  await breaker.getByLabel(/how many seconds/).fill("0");
  await breaker.getByLabel(/Why/).fill("it lies");
  await page.keyboard.press("Enter");
  await breaker.getByText("Between 1 and 86400 seconds.").waitFor();
  await breaker.getByLabel(/how many seconds/).fill("60");
  await page.keyboard.press("Enter");
  await breaker.getByText("Not done (409): there is no such provider").waitFor();
  assert.deepEqual(sent[1][1], { action: "open_breaker", target: everything().providers[0].name, reason: "it lies", seconds: 60 });
  answer = { status: 401, json: { error: "no" } };
  await page.keyboard.press("Enter");
  await breaker.getByText("Not done: the token is not right any more.").waitFor();
  await page.keyboard.press("Escape");

  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, document.documentElement.outerHTML]));
  assert.ok(!kept.includes(token));
  assert.ok(page.asked.every((url) => !url.includes(token)));
  await page.getByRole("button", { name: "Lock actions" }).click();
  assert.equal(await danger.count(), 0);
  await unlock(page);
  await page.getByRole("button", { name: "Lock actions" }).waitFor();
  await page.reload();
  await page.getByRole("button", { name: "Unlock actions" }).waitFor();
  assert.equal(await danger.count(), 0);
  assert.deepEqual(page.faults, []);
});

test("a service without a token has no actions", async (context) => {
  const page = await pretending(context, { "/ops/actions": { status: 404, body: "" } });
  await unlock(page);
  await page.getByText("has no OPS_TOKEN").waitFor();
});

test("what is looked at stays where it is while numbers move", async (context) => {
  const page = await pretending(context, { ...story, "/ops/now": everything });
  await unlock(page);
  const button = page.locator("#workers tbody").getByRole("button", { name: "Drain" });
  await button.focus();
  const when = await page.locator("#when").innerText();
  await eventually("it was drawn anew", async () => (await page.locator("#when").innerText()) !== when);
  assert.ok(await button.evaluate((node) => node === document.activeElement));
});

for (const colorScheme of ["light", "dark"]) {
  test(`axe and no sideways scroll: ${colorScheme}`, async (context) => {
    const page = await pretending(context, { ...story, "/ops/now": everything }, { colorScheme });
    await openStory(page);
    await unlock(page);
    await page.getByRole("region", { name: "What operators did" }).waitFor();
    await page.evaluate(() => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
    await page.locator("#chart-flow tbody tr").first().waitFor();
    for (const width of [320, 360, 768, 1280]) {
      await page.setViewportSize({ width, height: 800 });
      assert.deepEqual(await violations(page), [], `${width} px`);
      assert.equal(await sideways(page), 0, `${width} px`);
    }
    const well = await pretending(context, {}, { colorScheme });
    assert.deepEqual(await violations(well), []);
  });
}

test("text of twice the size: nothing scrolls sideways, and what leads somewhere is large enough to hit", async (context) => {
  const large = await launch("--blink-settings=defaultFontSize=32");
  context.after(() => large.close());
  const page = await pretending(context, { ...story, "/ops/now": everything }, { within: large });
  await openStory(page);
  for (const width of [320, 360, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    assert.equal(await sideways(page), 0, `${width} px`);
    const search = await page.getByRole("searchbox").boundingBox();
    assert.ok(search.width > 150, `a field of ${search.width} px at ${width} px`);
  }
  const [task] = story["/ops/find"].tasks;
  const usual = await pretending(context, { "/ops/find": { tasks: [task, { ...task, id: `${task.id}2` }] } }, { viewport: { width: 360, height: 740 } });
  await usual.getByRole("searchbox").fill("x");
  await usual.keyboard.press("Enter");
  await usual.locator("#found a").first().waitFor();
  const small = await usual.locator(".jumps a, #found a").evaluateAll((links) => links
    .filter((one) => one.getBoundingClientRect().height < 39.5 || one.getBoundingClientRect().width < 39.5).map((one) => one.textContent));
  assert.deepEqual(small, []);
});

test("by keys alone: from the head to a task and its cancellation", async (context) => {
  const page = await pretending(context, { ...story, "/ops/now": everything });
  const tabTo = async (name) => {
    for (let i = 0; i < 80; ++i) {
      await page.keyboard.press("Tab");
      const on = await page.evaluate(() => {
        const { activeElement: node } = document;
        if (node === document.body) {
          return null;  // Nothing has it: a busy browser gives a new page its focus a moment later.
        }
        const { outlineStyle } = getComputedStyle(node);
        return { name: node.labels?.[0]?.innerText ?? node.innerText ?? "", seen: outlineStyle !== "none" || node.matches("[type=radio]") };
      });
      if (on === null) {
        continue;
      }
      assert.ok(on.seen, `it is seen where the focus is: ${on.name}`);
      if (on.name.startsWith(name)) {
        return;
      }
    }
    assert.fail(`no way to ${name}`);
  };
  await tabTo("Unlock actions");
  await page.keyboard.press("Enter");
  await page.keyboard.type(token);
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Lock actions" }).waitFor();
  await tabTo("Task, request");
  await page.keyboard.type("x");
  await page.keyboard.press("Enter");
  await page.locator("#lanes li").nth(5).waitFor();
  await tabTo("Cancel the task");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: "Cancel the task" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
});

test("what somebody asks for while it is paused he is told, once", async (context) => {
  const page = await pretending(context, { ...story, "/ops/now": everything,
    "/ops/actions": (request) => request.method() === "POST" ? { done: true, detail: "what it did" } : story["/ops/actions"](request) });
  const asked = (what) => page.asked.filter((one) => one.includes(what)).length;
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await openStory(page);
  await page.locator("label", { hasText: "24 h" }).click();
  await eventually("the charts of the day are asked for", () => asked("range=24h") === 1);
  await unlock(page);
  await page.locator("#actions").getByText("Nothing yet.").waitFor();
  const before = asked("/ops/now");
  await page.locator("#stuck tbody tr").getByRole("button", { name: "Cancel" }).click();
  const question = page.getByRole("dialog", { name: "Cancel the task" });
  await question.getByLabel(/Why/).fill("it hangs");
  await page.keyboard.press("Enter");
  await question.getByText("Done: what it did").waitFor();
  await page.keyboard.press("Escape");
  await eventually("what came of it is looked at", () => asked("/ops/now") === before + 1 && asked("/ops/task") === 2);
  // Which takes longer than any pause between two looks. Actions were asked for to try the token, to list them, to do one, to list it.
  await eventually("the story is old", async () => Number.parseInt(await page.locator("#find .age").innerText(), 10) >= 12);
  assert.deepEqual(["/ops/now", "/ops/task", "range=24h", "/ops/actions"].map(asked), [before + 1, 2, 1, 4]);
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await eventually("it asks again", () => asked("/ops/now") > before + 1 && asked("/ops/task") > 2);
  assert.deepEqual(page.faults, []);
});
