// What people see while something is missing, slow, refused or away. Answers that a healthy service
// does not give on demand are put in its place.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import {
  ask, closeBrowser, consoleUrl, eventually, generated, loginLink, makeKey, newPage, newUser, open, refusal, settled, signedIn, statusWith,
  violations, waitOutMidnight,
} from "./support.mjs";

after(closeBrowser);

const api = "**/console/api/v1";

const away = "The service is temporarily unavailable; send the request again.";

test("an error says what failed, the request's id, and tries again when asked", async (context) => {
  const page = await signedIn(context);
  await page.route(`${api}/account/keys**`, (route) => route.fulfill(refusal(500, "internal_error")));
  await open(page, "keys");
  const alert = page.getByRole("alert");
  await alert.getByText("The keys could not be loaded.").waitFor();
  await alert.getByText("A sentence of the service.").waitFor();
  await alert.getByText("req_test0000000000").waitFor();
  await page.unroute(`${api}/account/keys**`);
  await alert.getByRole("button", { name: "Retry" }).click();
  await page.getByText("No keys yet").waitFor();
});

test("a secret that is on its way is not closed away", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  let answer;
  const held = new Promise((resolve) => { answer = resolve; });
  await page.route(`${api}/account/keys**`, async (route) => {
    if (route.request().method() === "POST") {
      await held;
    }
    await route.continue();
  });
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("made");
  await page.getByRole("button", { name: "Make the key" }).click();
  await page.locator("button[aria-disabled=true]", { hasText: "Cancel" }).click({ force: true });
  await page.keyboard.press("Escape");
  answer();
  await page.getByRole("region", { name: "The key" }).waitFor();
  await page.getByRole("button", { name: "I saved it" }).click();
});

test("the countdown of an old secret goes away when it is over", async (context) => {
  const page = await signedIn(context);
  // It is as late there as this test says, so that nothing is over before it was looked at.
  const now = Date.now();
  const until = new Date(now + 4000).toISOString();
  await page.clock.setFixedTime(now);
  await page.route(`${api}/account/keys**`, (route) => route.fulfill({
    status: 200, contentType: "application/json",
    body: JSON.stringify({
      object: "list", has_more: false, next_cursor: null,
      data: [{
        id: "key_01k9hq2m4c7p9s1v3x5z7b9d1f", name: "turned", prefix: "svc_live_Ab3d", mode: "live", scopes: ["generate", "manage"],
        expires_at: null, previous_key_expires_at: until, spend_limit: { credits: 1000, period: "day" }, spent_credits: 925.5,
        created_at: until, last_used_at: null,
      }],
    }),
  }));
  await open(page, "keys");
  await page.getByText("old secret works for 0:04 min").waitFor();
  await page.getByText("925.5 of 1,000 credits today").waitFor();
  await page.getByText("limit reached").waitFor();
  await page.clock.setFixedTime(now + 3000);
  await page.getByText("old secret works for 0:01 min").waitFor();
  await page.clock.setFixedTime(now + 4000);
  await eventually("it is gone, without another question", async () => (await page.getByText("old secret works for").count()) === 0);
});

test("what the service says of a limit and of a rotation is told; a fresh sign-in is asked for where it wants one", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  await ask(page, "POST", "/account/keys", { name: "mine", scopes: ["generate"] });
  await open(page, "keys");
  await page.route(`${api}/account/keys/**`, (route) => route.fulfill(refusal(400, "invalid_request")));
  await page.getByRole("button", { name: "Spend limit of mine" }).click();
  await page.getByLabel("Spend limit", { exact: true }).selectOption("day");
  await page.getByLabel("Credits a day").fill("1000");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("alert").getByText("The limit was not changed.").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Rotate mine" }).click();
  await page.getByRole("button", { name: "Make a new secret" }).click();
  await page.getByRole("alert").getByText("The key was not changed.").waitFor();
  await page.unroute(`${api}/account/keys/**`);
  await page.route(`${api}/account/keys/**`, (route) => route.fulfill(refusal(403, "step_up_required")), { times: 1 });
  await page.getByRole("button", { name: "Make a new secret" }).click();
  const sheet = page.getByRole("dialog").filter({ hasText: "Confirm that it is you" });
  await sheet.waitFor();
  await page.keyboard.press("Escape");
  await sheet.waitFor({ state: "detached" });
  assert.equal(await page.getByRole("alert").count(), 0, "whoever would rather not is told nothing");
  await page.getByRole("button", { name: "Make a new secret" }).click();
  await page.getByRole("region", { name: "The key" }).waitFor();
});

/** Has the answers of rotations lost on their way to the page, once each; how many were sent. */
async function loseRotations(page, times) {
  const sent = { times: 0 };
  await page.route(`${api}/account/keys/*/rotate`, async (route) => {
    sent.times += 1;
    if (sent.times > times) {
      return route.continue();
    }
    await route.fetch();
    return route.abort();
  });
  return sent;
}

const prefixOf = async (page) => (await ask(page, "GET", "/account/keys")).body.data[0].prefix;

test("a rotation whose answer was lost: the key may have been changed, and is shown as it is before another one", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  await makeKey(page, "turned");
  const first = await prefixOf(page);
  const sent = await loseRotations(page, 1);
  await page.getByRole("button", { name: "Rotate turned" }).click();
  const dialog = page.getByRole("dialog", { name: "A new secret for “turned”" });
  assert.equal(await dialog.getByText("The one before that").count(), 0);
  await dialog.getByRole("button", { name: "Make a new secret" }).click();
  await dialog.getByText("The key may have been changed.").waitFor();
  await dialog.getByText("It was changed, and the answer with its new secret was lost").waitFor();
  await dialog.getByText("The one before that").waitFor();
  const second = await prefixOf(page);
  assert.notEqual(second, first);
  await dialog.getByText(`The one that it has, ${second}…`).waitFor();
  assert.deepEqual(await violations(page), []);
  await dialog.getByRole("button", { name: "Make a new secret" }).click();
  const third = await page.getByRole("region", { name: "The key" }).textContent();
  assert.equal(await statusWith(third), 200);
  assert.equal(sent.times, 2);
  assert.deepEqual(page.faults, []);
});

test("without a connection after a rotation nobody knows: the next press looks, and makes no secret that nothing was said of", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  await makeKey(page, "turned");
  await page.getByRole("button", { name: "Rotate turned" }).click();
  const sent = await loseRotations(page, 1);
  const list = `${api}/account/keys?limit=100`;
  await page.route(list, (route) => (sent.times === 0 ? route.continue() : route.abort()));
  const dialog = page.getByRole("dialog", { name: "A new secret for “turned”" });
  const make = dialog.getByRole("button", { name: "Make a new secret" });
  await make.click();
  for (const again of [false, true]) {
    if (again) {
      await make.click();
    }
    await dialog.getByText("The key may have been changed.").waitFor();
    await eventually("it is over", async () => (await make.getAttribute("aria-disabled")) === null);
    assert.equal(await dialog.getByText("The one before that").count(), 0);
  }
  await page.unroute(list);
  await make.click();
  await dialog.getByText("It was changed, and the answer with its new secret was lost").waitFor();
  await dialog.getByText("The one before that").waitFor();
  assert.equal(sent.times, 1);
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("old secret works for").waitFor();
});

/** Signs in with a link where a sheet lies over the page. */
async function confirmWith(page, link) {
  const sheet = page.getByRole("dialog", { name: "Confirm that it is you" });
  await sheet.getByText("Use a sign-in link").click();
  await sheet.getByLabel("Sign-in link").fill(link);
  await sheet.getByRole("button", { name: "Sign in with the link" }).click();
}

const session = `${api}/sessions/current`;

test("a sign-in that succeeded is none that failed, though the session cannot be read: it is asked for again", async (context) => {
  const page = await newPage(context);
  await page.goto(await loginLink(await newUser()));
  const button = page.getByRole("button", { name: "Sign in with this link" });
  await button.waitFor();
  await page.route(session, (route) => route.fulfill(refusal(503, "service_unavailable", {}, away)));
  await button.click();
  await page.getByRole("alert").getByText("The console could not be opened.").waitFor();
  await page.unroute(session);
  await page.getByRole("button", { name: "Retry" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  assert.deepEqual(page.faults, []);
});

/** From the next document on the page has no storage. */
function withoutStorage(page) {
  return page.addInitScript(() => {
    for (const name of ["localStorage", "sessionStorage"]) {
      Object.defineProperty(window, name, { get: () => { throw new DOMException("no", "SecurityError"); } });
    }
  });
}

/** On the page of the keys, where a new one takes a fresh sign-in, and then the session cannot be read. */
async function keyToConfirm(context, { storage = true } = {}) {
  const page = await signedIn(context);
  if (!storage) {
    await withoutStorage(page);
  }
  await open(page, "keys");
  await page.route(`${api}/account/keys`, (route) => route.fulfill(refusal(403, "step_up_required")), { times: 1 });
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("for whom?");
  await page.getByRole("button", { name: "Make the key" }).click();
  await page.getByRole("dialog", { name: "Confirm that it is you" }).waitFor();
  await page.route(session, (route) => route.abort());
  return page;
}

test("confirmed though the session cannot be read: what was asked for is done", async (context) => {
  const page = await keyToConfirm(context);
  await confirmWith(page, await loginLink(page.email));
  await page.getByRole("region", { name: "The key" }).waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
  assert.deepEqual(page.faults, []);
});

for (const storage of [true, false]) {
  test(`confirmed as somebody else, though the session cannot be read${storage ? "" : " and nothing is kept"}: nothing is done for him`, async (context) => {
    const page = await keyToConfirm(context, { storage });
    const other = await newUser();
    await confirmWith(page, await loginLink(other));
    await page.getByRole("alert").getByText("The console could not be opened.").waitFor();
    await page.unroute(session);
    await page.getByRole("button", { name: "Retry" }).click();
    await page.getByText(other).first().waitFor();
    assert.equal(await page.getByRole("dialog").count(), 0);
    assert.deepEqual((await ask(page, "GET", "/account/keys")).body.data, []);
  });
}

test("a password that was set is none that was not, though the session cannot be read", async (context) => {
  const page = await signedIn(context, { path: "settings" });
  await page.route(session, (route) => route.fulfill(refusal(503, "service_unavailable", {}, away)));
  await page.getByLabel("Password").fill("correct horse and some staples");
  await Promise.all([page.waitForResponse(/\/sessions\/current$/), page.getByRole("button", { name: "Set a password" }).click()]);
  await page.getByText("Saved. Other sessions have ended.").waitFor();
  await eventually("it is over", async () => (await page.getByRole("button", { name: "Set a password" }).getAttribute("aria-disabled")) === null);
  assert.equal(await page.getByRole("alert").count(), 0);
  assert.deepEqual(page.faults, []);
});

test("a generation that was deleted is said to be, though what is left of it cannot be read", async (context) => {
  const page = await signedIn(context);
  const made = await generated(page, "Soon gone.");
  await open(page, `generations/${made.id}`);
  const one = `${api}/audio/generations/${made.id}`;
  await page.route(one, (route) => (route.request().method() === "GET" ? route.fulfill(refusal(503, "service_unavailable", {}, away)) : route.continue()));
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  const alert = page.getByRole("alert");
  await alert.getByText("It was deleted. What is left of it could not be loaded.").waitFor();
  await page.getByText("The text was deleted.").waitFor();
  assert.equal(await page.getByText("It was not canceled.").count(), 0);
  await page.unroute(one);
  await alert.getByRole("button", { name: "Retry" }).click();
  await page.getByText("The audio was deleted on").waitFor();
  assert.equal(await alert.count(), 0);
  assert.deepEqual(page.faults, []);
});

test("a page that cannot be drawn says so, and the others work", async (context) => {
  const page = await signedIn(context);
  const made = await generated(page, "Not to be shown.");
  const details = /\/details$/;
  await page.route(details, async (route) => {
    const answer = await route.fetch();
    const told = await answer.json();
    return route.fulfill({ response: answer, json: { ...told, request: { ...told.request, pitch: "high" } } });
  });
  await open(page, `generations/${made.id}`);
  await page.getByRole("alert").getByText("This page cannot be shown").waitFor();
  assert.deepEqual(page.faults, ["error: not a decimal: high"]);
  assert.deepEqual(await violations(page), []);
  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "History" }).click();
  await page.getByRole("link", { name: "Not to be shown." }).click();
  await page.getByRole("alert").getByText("This page cannot be shown").waitFor();
  await page.unroute(details);
  await page.getByRole("button", { name: "Reload" }).click();
  await page.getByText("credits charged").waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
});

test("too many requests: counts down, then asks again by itself", async (context) => {
  const page = await signedIn(context);
  await page.clock.install();
  let asked = 0;
  await page.route(`${api}/account/keys**`, (route) => {
    asked += 1;
    return asked === 1 ? route.fulfill(refusal(429, "rate_limit_exceeded", { "Retry-After": "60" })) : route.continue();
  });
  await open(page, "keys");
  await page.getByText(/Trying again in \d\d s/).waitFor();
  await page.clock.fastForward(30_000);
  await page.getByText(/Trying again in ([12]?\d|30) s/).waitFor();
  assert.equal(asked, 1);
  await page.clock.fastForward(30_000);
  await page.getByText("No keys yet").waitFor();
  assert.equal(asked, 2);
});

/** How creations were sent, by their keys; the first is answered with `refused`. */
async function refuseFirst(page, refused) {
  const sent = [];
  await page.route(`${api}/audio/generations`, (route) => {
    if (route.request().method() !== "POST") {
      return route.continue();
    }
    sent.push(route.request().headers()["idempotency-key"]);
    return sent.length === 1 ? route.fulfill(refused) : route.continue();
  });
  return sent;
}

test("too many generations: the playground counts down, sends nothing meanwhile, and its buttons come back", async (context) => {
  const page = await signedIn(context);
  await page.clock.install();
  await open(page, "playground");
  const sent = await refuseFirst(page, refusal(429, "rate_limit_exceeded", { "Retry-After": "60" }));
  await page.getByLabel("Prompt").fill("Patience.");
  await page.getByRole("button", { name: "Generate" }).click();
  await page.getByRole("alert").getByText(/You may try again in \d\d s/).waitFor();
  await page.getByRole("alert").getByText("A sentence of the service.").waitFor();
  const generate = page.getByRole("button", { name: "Wait", exact: true });
  await generate.getByText(/^Wait \d\d s$/).waitFor();
  assert.equal(await generate.getAttribute("aria-disabled"), "true");
  assert.equal(await page.getByRole("button", { name: "Try again" }).getAttribute("aria-disabled"), "true");
  await page.getByLabel("Prompt").press("Control+Enter");
  await page.clock.fastForward(60_000);
  await page.getByRole("button", { name: "Generate" }).waitFor();
  await page.getByText("You may try again now.").waitFor();
  assert.equal(sent.length, 1);
  assert.equal(await page.getByRole("button", { name: "Generate" }).getAttribute("aria-disabled"), null);
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("credits charged").waitFor();
  assert.equal(new Set(sent).size, 2, "what was refused and what is asked for now are two intentions");
});

test("a refusal after an answer that was lost: it may have been accepted, and is sent again under its key", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  const sent = [];
  await page.route(`${api}/audio/generations`, async (route) => {
    if (route.request().method() !== "POST") {
      return route.continue();
    }
    sent.push(route.request().headers()["idempotency-key"]);
    if (sent.length === 1) {
      await route.fetch();
      return route.abort();
    }
    return sent.length < 4 ? route.fulfill(refusal(429, "rate_limit_exceeded", { "Retry-After": "1" })) : route.continue();
  });
  await page.getByLabel("Prompt").fill("Once.");
  await page.getByRole("button", { name: "Generate" }).click();
  await page.getByRole("alert").getByText("It may have been accepted before").waitFor();
  assert.equal(await page.getByText("nothing was charged").count(), 0);
  await page.reload();
  await page.getByRole("alert").getByText("It may have been accepted before").waitFor();
  await page.getByText("You may try again now.").waitFor();
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("credits charged").waitFor();
  assert.equal(sent.length, 4);
  assert.equal(new Set(sent).size, 1);
  assert.equal((await ask(page, "GET", "/audio/generations")).body.data.length, 1);
});

test("a service that is busy: the playground counts down and sends the same again by itself", async (context) => {
  const page = await signedIn(context);
  await page.clock.install();
  await open(page, "playground");
  const sent = await refuseFirst(page, refusal(503, "service_unavailable", { "Retry-After": "60" }));
  await page.getByLabel("Prompt").fill("Again.");
  await page.getByRole("button", { name: "Generate" }).click();
  await page.getByText(/Trying again in \d\d s/).waitFor();
  await page.clock.fastForward(60_000);
  await page.getByText("credits charged").waitFor();
  assert.equal(sent.length, 2);
  assert.equal(new Set(sent).size, 1);
  assert.equal(await page.getByText(/Trying again/).count(), 0);
  assert.equal(await page.getByRole("button", { name: "Generate" }).getAttribute("aria-disabled"), null);
});

test("nobody has to wait for a service that is busy", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  const sent = await refuseFirst(page, refusal(503, "service_unavailable", { "Retry-After": "60" }, away));
  await page.getByLabel("Prompt").fill("Never mind.");
  await page.getByRole("button", { name: "Generate" }).click();
  await page.getByText("The service is busy or being restarted. It goes on by itself.").waitFor();
  await page.getByText(/Trying again in [56]\d s/).waitFor();
  await page.getByRole("button", { name: "Stop trying" }).click();
  await page.getByText("Nothing to hear yet").waitFor();
  await page.reload();
  await settled(page);
  await page.getByRole("button", { name: "Generate" }).waitFor();
  assert.equal(await page.getByLabel("Prompt").inputValue(), "Never mind.");
  assert.equal(sent.length, 1);
});

test("a long wait: why, until when, and nothing is sent but by whoever asks for it", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  const sent = await refuseFirst(page, refusal(503, "service_unavailable", { "Retry-After": "3000" }));
  await page.getByLabel("Prompt").fill("Not in an hour.");
  await page.getByRole("button", { name: "Generate" }).click();
  const alert = page.getByRole("alert");
  await alert.getByText("It was not accepted; nothing was charged. A sentence of the service.").waitFor();
  await alert.getByText(/You may try again in (49|50) min/).waitFor();
  assert.equal(await page.getByText(/Trying again/).count(), 0);
  await page.getByRole("button", { name: "Generate" }).waitFor();
  assert.equal(sent.length, 1);
  await eventually("the double click is over", async () => {
    await page.getByRole("button", { name: "Try again" }).click({ timeout: 1000 }).catch(() => undefined);
    return sent.length === 2;
  });
  await page.getByText("credits charged").waitFor();
  assert.equal(new Set(sent).size, 2, "what was refused and what is asked for now are two intentions");
});

const linked = {
  id: "iss_01k9hq2m4c7p9s1v3x5z7b9d1f", issuer: "https://login.example.com/realms/ours", email: "ann@example.com",
  linked_at: "2026-01-02T03:04:05.000Z", last_used_at: null,
};

/** The issuers of the account as `answer` says, which may be changed. */
async function withIssuers(page, shown) {
  await page.route(`${api}/account/issuers`, (route) => route.fulfill({ json: { object: "list", has_more: false, next_cursor: null, data: shown.data } }));
}

test("linked issuers: who they are, unlinked after a question and a fresh sign-in, then none", async (context) => {
  const page = await signedIn(context);
  const shown = { data: [linked, { ...linked, id: "iss_01k9hq2m4c7p9s1v3x5z7b9d1g", issuer: null, email: null }] };
  await withIssuers(page, shown);
  const answers = [refusal(403, "step_up_required"), refusal(409, "last_way_in"), { status: 204 }];
  const asked = [];
  await page.route(`${api}/account/issuers/*`, (route) => {
    asked.push(`${route.request().method()} ${route.request().url().split("/").at(-1)}`);
    shown.data = asked.length < 3 ? shown.data : [];
    return route.fulfill(answers[asked.length - 1]);
  });
  await open(page, "settings");
  const card = page.getByRole("region", { name: "Linked issuers" });
  for (const text of ["login.example.com", "https://login.example.com/realms/ours", "ann@example.com", "linked before names were kept", "An issuer without a name"]) {
    await card.getByText(text, { exact: !text.startsWith("linked") }).waitFor();
  }
  assert.deepEqual(await violations(page), []);

  await card.getByRole("button", { name: "Unlink login.example.com" }).click();
  const question = page.getByRole("dialog", { name: "Unlink login.example.com?" });
  await question.waitFor();
  assert.deepEqual(await violations(page), []);
  await question.getByRole("button", { name: "Keep it" }).click();
  await question.waitFor({ state: "detached" });
  assert.deepEqual(asked, []);

  await card.getByRole("button", { name: "Unlink login.example.com" }).click();
  await question.getByRole("button", { name: "Unlink it" }).click();
  const sheet = page.getByRole("dialog", { name: "Confirm that it is you" });
  await sheet.waitFor();
  await page.keyboard.press("Escape");
  await sheet.waitFor({ state: "detached" });
  assert.equal(await page.getByRole("alert").count(), 0, "whoever would rather not is told nothing");
  await question.getByRole("button", { name: "Unlink it" }).click();
  await question.getByRole("alert").getByText("It is the only way in.").waitFor();
  await question.getByRole("button", { name: "Unlink it" }).click();
  await question.waitFor({ state: "detached" });
  await card.getByText(/^None/).waitFor();
  assert.deepEqual(asked, Array(3).fill(`DELETE ${linked.id}`));
  assert.deepEqual(page.faults, []);
});

test("no linked issuer: the organization is linked by whoever has just signed in", async (context) => {
  const page = await signedIn(context);
  await withIssuers(page, { data: [] });
  await page.route(`${api}/sign-in`, (route) => route.fulfill({ json: { mail: true, sign_up: "closed", oidc: true } }));
  let fresh = false;
  const { body: session } = await ask(page, "GET", "/sessions/current");
  await page.route(`${api}/sessions/current`, (route) => route.fulfill({
    json: { ...session, fresh_until: new Date(Date.now() + (fresh ? 600_000 : -1000)).toISOString() },
  }));
  const asked = [];
  await page.route(`${api}/sign-in/oidc`, (route) => {
    asked.push(route.request().postDataJSON());
    return route.fulfill({ json: { url: `${consoleUrl}history#issuer` } });
  });
  await open(page, "settings");
  const card = page.getByRole("region", { name: "Linked issuers" });
  await card.getByText("None. Link your organization").waitFor();
  await card.getByRole("button", { name: "Link your organization" }).click();
  const sheet = page.getByRole("dialog", { name: "Confirm that it is you" });
  await sheet.waitFor();
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Escape");
  await sheet.waitFor({ state: "detached" });
  assert.deepEqual(asked, []);
  fresh = true;
  await page.reload();
  await settled(page);
  await card.getByRole("button", { name: "Link your organization" }).click();
  await page.waitForURL(/history/);
  assert.deepEqual(asked, [{ purpose: "sign_in" }]);
});

test("an issuer that did not say when: told to whoever is signed in, and to whoever is not", async (context) => {
  const text = "Your organization did not say when you signed in. Confirm with a password, a passkey or a link.";
  for (const page of [await signedIn(context), await newPage(context)]) {
    await page.route(`${api}/sign-in`, (route) => route.fulfill({ json: { mail: true, sign_up: "closed", oidc: true } }));
    await page.goto("about:blank");
    await page.goto(`${consoleUrl}#sign-in=not-shown`);
    await page.getByRole("alert").getByText(text).waitFor();
    assert.equal(await page.getByRole("alert").count(), 1);
    assert.ok(!page.url().includes("#"));
    assert.deepEqual(await violations(page), []);
  }
});

test("busy service: asks again by itself, and keeps what is shown with its age", async (context) => {
  const page = await signedIn(context, { path: "history" });
  await generated(page, "Still here.");
  await open(page, "history");
  let busy = true;
  await page.route(`${api}/audio/generations?*`, (route) => busy ? route.fulfill(refusal(503, "service_unavailable", { "Retry-After": "1" }, away)) : route.continue());
  await page.getByLabel("Status").selectOption("succeeded");
  await page.getByText("The service is busy or being restarted.").waitFor();
  await page.getByText(/Shown as of \d\d:\d\d:\d\d/).waitFor();
  await page.getByText("Still here.").waitFor();
  busy = false;
  await page.getByRole("alert").waitFor({ state: "detached" });
});

test("the service is away when the console is opened: it says so, and opens by itself when it is back", async (context) => {
  const page = await signedIn(context);
  let away = true;
  await page.route(`${api}/sessions/current`, (route) => away ? route.fulfill(refusal(503, "service_unavailable", { "Retry-After": "1" })) : route.continue());
  await page.reload();
  await page.getByText("The console could not be opened.").waitFor();
  await page.getByText(/Trying again (in \d+ s|now)/).waitFor();
  away = false;
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
});

test("what is asked for here moves nothing that is shown, however long it takes", async (context) => {
  const page = await signedIn(context, { path: "history" });
  await generated(page, "Still here.");
  await page.clock.install();
  await open(page, "history");
  await page.getByText("Still here.").waitFor();
  let release;
  const held = new Promise((resolve) => { release = resolve; });
  await page.route(`${api}/audio/generations?*`, async (route) => {
    await held;
    await route.continue();
  });
  const asked = page.waitForRequest(/\/audio\/generations\?/);
  await page.getByLabel("Status").selectOption("succeeded");
  await asked;
  await page.clock.runFor(1000);
  assert.equal(await page.locator(".age").count(), 0, "the rows would go down a line, and up again");
  assert.equal(await page.getByText("Still here.").count(), 1);
  release();
  await settled(page);
});

test("offline: says so, and goes on when the connection is back", async (context) => {
  const page = await signedIn(context);
  await page.context().setOffline(true);
  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Billing" }).click();
  await page.getByText("The service cannot be reached.").first().waitFor();
  await page.context().setOffline(false);
  await page.getByRole("table").waitFor();
  await eventually("no alert is left", async () => (await page.getByRole("alert").count()) === 0);
});

/** Somebody comes back to the tab at that time. What is asked for because of that has been sent. */
async function comesBack(page, time) {
  await page.clock.setFixedTime(time);
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await ask(page, "GET", "/sessions/current");
}

/** How often the page has asked at an address that matches. */
function counted(page, pattern) {
  const seen = { times: 0 };
  page.on("request", (request) => { seen.times += pattern.test(request.url()) ? 1 : 0; });
  return seen;
}

test("a page left open overnight: whoever comes back sees the new day, and until it is there what there was, with its age", async (context) => {
  await waitOutMidnight();
  const page = await signedIn(context);
  const day = 86_400_000;
  const today = Math.floor(Date.now() / day) * day;
  const name = (time) => new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" }).format(time);
  await page.clock.setFixedTime(today - 60_000);
  const asked = counted(page, /\/usage\?/);
  await open(page, "");
  const said = page.locator(".chart figcaption");
  await page.locator(".chart .reach").last().hover();
  await said.getByText(`${name(today - day)}: 0 credits`).waitFor();
  await comesBack(page, today - 30_000);
  assert.equal(asked.times, 1, "half a minute later there is nothing new");

  let release;
  const held = new Promise((resolve) => { release = resolve; });
  await page.route(`${api}/usage?*`, async (route) => {
    await held;
    await route.continue();
  });
  await comesBack(page, today + 60_000);
  await page.locator(".age", { hasText: /^Shown as of \d\d:\d\d:\d\d\.$/ }).waitFor();
  await said.getByText(`${name(today - day)}: 0 credits`).waitFor();
  assert.equal(await page.locator(".skeleton").count(), 0);
  release();
  await said.getByText(`${name(today)}: 0 credits`).waitFor();
  await page.locator(".age").waitFor({ state: "detached" });
  assert.equal(await page.locator(".chart .bar").count(), 30);

  await comesBack(page, today + 5 * 60_000);
  assert.equal(asked.times, 2, "nor is there after four minutes of the same day");
  await comesBack(page, today + 7 * 60_000);
  assert.equal(asked.times, 3, "after more than five there may be");
  await settled(page);
  assert.deepEqual(page.faults, []);
});

test("whoever comes back to the first run finds his key, though its credits are in use", async (context) => {
  const page = await signedIn(context, { user: await newUser({ credits: 150 }), path: "start" });
  await page.getByRole("button", { name: "Make a key" }).click();
  const secret = await page.getByRole("region", { name: "The key" }).textContent();
  const asked = counted(page, /\/pricing$/);
  await comesBack(page, Date.now() + 3_600_000);
  assert.equal((await ask(page, "POST", "/audio/generations", { model: "svc-audio-1.0", prompt: "All that there is." })).status, 202);
  await page.getByText("credits charged").waitFor();
  assert.equal(asked.times, 0);
  assert.equal(await page.getByRole("region", { name: "The key" }).textContent(), secret);
});

test("slow: a skeleton and aria-busy, then the answer", async (context) => {
  const page = await signedIn(context);
  let release;
  const held = new Promise((resolve) => { release = resolve; });
  await page.route(`${api}/account/keys**`, async (route) => {
    await held;
    await route.continue();
  });
  await page.goto(`${consoleUrl}keys`);
  await page.locator(".skeleton").waitFor();
  assert.equal(await page.locator('#main [aria-busy="true"]').count(), 1);
  release();
  await page.getByText("No keys yet").waitFor();
  assert.equal(await page.locator('#main [aria-busy="true"], .skeleton').count(), 0);
});

test("a session that ends in the middle: sign in over the page, the draft is kept and sent", async (context) => {
  const user = await newUser();
  const page = await signedIn(context, { user, path: "settings" });
  const password = "a sentence as a password";
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Set a password" }).click();
  await page.getByText("Saved.").waitFor();
  await open(page, "playground");
  await page.getByLabel("Prompt").fill("Half a thought, kept.");
  await page.context().clearCookies();
  await page.getByRole("button", { name: "Generate" }).click();
  await page.getByRole("dialog", { name: "Your session has ended" }).waitFor();
  assert.equal(await page.getByLabel("Mail address").inputValue(), user);
  await page.getByRole("dialog").getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.equal(await page.getByLabel("Prompt").inputValue(), "Half a thought, kept.");
  await page.getByText("credits charged").waitFor();
  assert.equal((await ask(page, "GET", "/audio/generations")).body.data.length, 1);
});

test("not enough credits: how many it needs and how many there are", async (context) => {
  const page = await signedIn(context, { user: await newUser({ credits: 93 }), path: "playground" });
  await page.getByText("needs 150, you have 93").waitFor();
  await page.getByLabel("Prompt").fill("Too dear.");
  await page.getByRole("button", { name: "Generate" }).click();
  await page.getByText("Not enough credits:").waitFor();
  await page.getByText("needs 150, you have 93. Nothing was charged.").waitFor();
});

test("a generation that failed: why, what was refunded, and once more with the same settings", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  const bodies = [];
  page.on("request", (request) => {
    if (request.method() === "POST" && request.url().endsWith("/audio/generations")) {
      bodies.push([request.postData(), request.headers()["idempotency-key"]]);
    }
  });
  let fail = true;
  await page.route(/\/console\/api\/v1\/audio\/generations\/aud_/, async (route) => {
    if (route.request().url().endsWith("/events")) {
      return route.abort();
    }
    const answer = await route.fetch();
    const body = await answer.json();
    const failed = {
      ...body, status: "failed", output: null, usage: null,
      billing: { reserved_credits: 150, charged_credits: 0, returned_credits: 150 },
      error: { code: "provider_unavailable", message: "No provider answered.", retriable: true },
    };
    return route.fulfill({ response: answer, json: fail ? failed : body });
  });
  await page.getByLabel("Prompt").fill("Try me twice.");
  await page.getByRole("radio", { name: /^Nova/ }).check();
  await page.getByRole("button", { name: "Generate" }).click();
  await page.getByText("Refunded 150 credits").waitFor();
  await page.getByText("provider_unavailable").waitFor();
  await page.getByLabel("Prompt").fill("Something else by now.");
  fail = false;
  await eventually("the double click is over", async () => {
    await page.getByRole("button", { name: "Try again" }).click({ timeout: 1000 }).catch(() => undefined);
    return bodies.length === 2;
  });
  await page.getByText("credits charged").waitFor();
  assert.equal(bodies[0][0], bodies[1][0]);
  assert.notEqual(bodies[0][1], bodies[1][1]);
});

test("a generation that is not to be had any more does not block the next", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  await page.route(/\/audio\/generations\/aud_/, (route) => route.fulfill(refusal(404, "task_not_found")));
  await page.getByLabel("Prompt").fill("Lost.");
  await page.getByRole("button", { name: "Generate" }).click();
  await page.getByText("It cannot be followed any more.").waitFor();
  await page.unroute(/\/audio\/generations\/aud_/);
  await page.getByRole("button", { name: "Clear" }).click();
  await page.getByRole("button", { name: "Generate" }).click();
  await page.getByText("credits charged").waitFor();
});

test("canceled: everything returns", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  // It stays open as far as the page can see, until it is canceled.
  await page.route(/\/events$/, (route) => route.abort());
  await page.route(/\/audio\/generations\/aud_[^/]+$/, async (route) => {
    const answer = await route.fetch({ headers: { ...route.request().headers(), prefer: "" } });
    const open = { ...(await answer.json()), status: "processing", output: null, usage: null, billing: { reserved_credits: 150 } };
    return route.fulfill({ response: answer, json: open });
  });
  await page.route(/\/audio\/generations\/aud_[^/]+\/cancel$/, async (route) => {
    const id = route.request().url().split("/").at(-2);
    const { body } = await ask(page, "GET", `/audio/generations/${id}`);
    return route.fulfill({ json: { ...body, status: "canceled", billing: { reserved_credits: 150, charged_credits: 0, returned_credits: 150 } } });
  });
  await page.getByLabel("Prompt").fill("Never mind.");
  await page.getByRole("button", { name: "Generate" }).click();
  await page.getByText("Making the audio").waitFor();
  assert.equal(await page.getByRole("button", { name: "Under way" }).getAttribute("aria-disabled"), "true");
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Refunded 150 credits").waitFor();
});

test("without the samples of a file it still plays", async (context) => {
  const page = await signedIn(context);
  const made = await generated(page, "No shape.");
  await page.route("**/files/**", (route) => route.request().resourceType() === "fetch" ? route.abort() : route.continue());
  await open(page, `generations/${made.id}`);
  await eventually("it has a length", () => page.locator("audio").evaluate((audio) => audio.duration > 0));
  assert.equal(await page.locator("canvas").count(), 0);
});

test("a key that was used since the list was read is not deleted by a slip of the hand", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  const secret = await makeKey(page, "in use");
  await page.getByRole("button", { name: "Delete in use" }).click();
  const question = page.getByRole("dialog", { name: "Delete “in use”?" });
  await question.waitFor();
  assert.equal(await question.getByText("In use:").count(), 0);
  assert.equal(await statusWith(secret), 200);
  await question.getByRole("button", { name: "Delete the key" }).click();
  await question.getByText("In use:").waitFor();
  assert.equal(await question.getByText("That is not its name.").count(), 0, "nobody has asked for it before");
  assert.equal(await statusWith(secret), 200);
  await question.getByRole("button", { name: "Delete the key" }).click();
  await question.getByText("That is not its name.").waitFor();
  await question.getByLabel("Type its name, in use").fill("in use");
  await question.getByRole("button", { name: "Delete the key" }).click();
  await page.getByText("No keys yet").waitFor();
});

test("a free account: its keys cannot create, its playground can", async (context) => {
  const page = await signedIn(context, { user: await newUser({ plan: "free" }), path: "keys" });
  await page.getByText("Keys of this account cannot create generations yet").waitFor();
  await open(page, "start");
  await page.getByText("Keys of this account cannot create generations yet").waitFor();
  assert.equal(await page.getByRole("button", { name: "Make a key" }).count(), 0);
  assert.deepEqual(await violations(page), []);
  await page.getByRole("link", { name: "Open the playground" }).click();
  await page.getByRole("heading", { level: 1, name: "Playground" }).waitFor();
  await page.getByLabel("Prompt").fill("For free.");
  await page.getByRole("button", { name: "Generate" }).click();
  await page.getByText("credits charged").waitFor();
});

test("without credits the first run leads to how to get them", async (context) => {
  const page = await signedIn(context, { user: await newUser({ credits: 93 }), path: "start" });
  await page.getByText("A generation needs 150 credits, you have 93.").waitFor();
  assert.equal(await page.getByText("Keys of this account cannot").count(), 0);
  await page.getByRole("link", { name: "How to get credits" }).click();
  await page.getByRole("heading", { level: 1, name: "Billing" }).waitFor();
});

test("nothing at all: every page says what would be there", async (context) => {
  const page = await signedIn(context, { user: await newUser({ credits: 0 }) });
  for (const [path, text] of [["", "From a key to a sound"], ["", "Nothing yet"], ["playground", "Nothing to hear yet"], ["history", "Nothing yet"], ["keys", "No keys yet"], ["billing", "No movements yet"]]) {
    await open(page, path);
    await page.getByText(text).first().waitFor();
  }
  await open(page, "");
  await page.getByRole("button", { name: "Skip" }).click();
  await page.reload();
  await settled(page);
  assert.equal(await page.getByText("From a key to a sound").count(), 0);
});

test("storage that is switched off breaks nothing", async (context) => {
  const page = await newPage(context);
  await withoutStorage(page);
  await page.goto(consoleUrl);
  await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
  assert.deepEqual(page.faults, []);
});
