// What a hostile page, a hostile text and a stolen look at the screen get: nothing.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, test } from "node:test";
import { ask, base, closeBrowser, consoleUrl, eventually, follow, generated, loginLink, makeKey, newPage, newUser, open, settled, signedIn } from "./support.mjs";

after(closeBrowser);

const markup = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>"'&lt;b>`;

test("markup in prompts and names is text", async (context) => {
  const page = await signedIn(context);
  const made = await generated(page, markup, { metadata: { note: markup } });
  await ask(page, "POST", "/account/keys", { name: markup, scopes: [] });
  for (const [path, place] of [["", "a.row-main"], ["history", "a.row-main"], [`generations/${made.id}`, ".prompt"], ["keys", ".row-main strong"]]) {
    await open(page, path);
    assert.equal(await page.locator(place).first().textContent(), markup, path);
    assert.equal(await page.locator("#main img").count(), 0, path);
    assert.notEqual(await page.title(), "owned", path);
  }
  await open(page, `generations/${made.id}`);
  assert.equal(await page.locator(".metadata li").textContent(), `note ${markup}`);
  await open(page, "keys");
  await page.getByRole("button", { name: /^Delete / }).click();
  assert.ok((await page.getByRole("dialog").textContent()).includes(markup));
  assert.deepEqual(page.faults, []);
});

test("no page asks another host for anything, and none breaks the content security policy", async (context) => {
  const page = await signedIn(context);
  await page.addInitScript(() => {
    window.reports = [];
    document.addEventListener("securitypolicyviolation", (event) => window.reports.push(`${event.violatedDirective} ${event.blockedURI}`));
  });
  const made = await generated(page, "Nothing to see.");
  for (const path of ["", "start", "playground", "history", `generations/${made.id}`, "keys", "usage", "billing", "reference", "settings"]) {
    await open(page, path);
    assert.deepEqual(await page.evaluate(() => window.reports), [], path);
  }
  assert.deepEqual(page.faults, []);
});

test("a script that got in anyway is not run", async (context) => {
  const page = await signedIn(context);
  const ran = await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.owned = true";
    document.body.append(script);
    document.body.insertAdjacentHTML("beforeend", '<p id="styled" style="position:fixed">x</p>');
    return [window.owned === true, getComputedStyle(document.getElementById("styled")).position];
  });
  assert.deepEqual(ran, [false, "static"]);
});

/** A page of somebody else's, on another origin. */
async function elsewhere(context, html) {
  const server = createServer((_, response) => response.writeHead(200, { "Content-Type": "text/html" }).end(html));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  context.after(() => server.close());
  return `http://127.0.0.1:${server.address().port}/`;
}

test("another site cannot frame it", async (context) => {
  const page = await signedIn(context);
  await page.goto(await elsewhere(context, `<iframe src="${consoleUrl}"></iframe>`));
  const frame = await eventually("the frame is there", () => page.frames()[1]);
  await eventually("it was refused", () => frame.url().startsWith("chrome-error://"));
});

test("another site's form and script change nothing", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  const address = await elsewhere(context, `
    <form method="post" enctype="text/plain" action="${base}/console/api/v1/account/keys"><input name='{"name":"stolen","x":"' value='"}'></form>`);
  const evil = await page.context().newPage();
  await evil.goto(address);
  const answers = await evil.evaluate(async (api) => {
    const send = (init) => fetch(`${api}/account/keys`, { method: "POST", credentials: "include", body: '{"name":"stolen"}', ...init })
      .then((response) => response.type, () => "refused");
    const read = await fetch(`${api}/account`, { credentials: "include" }).then((response) => response.text(), () => "refused");
    return [await send({ headers: { "Content-Type": "application/json" } }), await send({ mode: "no-cors" }), read];
  }, `${base}/console/api/v1`);
  assert.deepEqual(answers, ["refused", "refused", "refused"]);
  await Promise.all([evil.waitForNavigation(), evil.evaluate(() => document.forms[0].submit())]);
  assert.equal((await ask(page, "GET", "/account/keys")).body.data.length, 0);
});

/** No trace of it in the page, in what the browser keeps, in what was logged, or in the pages before and after. */
async function nowhere(page, secret) {
  assert.ok(secret.length > 20);
  const traces = await page.evaluate(() => JSON.stringify([document.documentElement.outerHTML, { ...localStorage }, { ...sessionStorage }, location.href, history.state, document.cookie]));
  assert.ok(!traces.includes(secret));
  assert.ok(!page.said.join("\n").includes(secret));
  for (const move of ["goBack", "goForward"]) {
    await page[move]();
    await settled(page);
    assert.ok(!(await page.content()).includes(secret), move);
  }
}

test("a key is nowhere once its dialog is closed", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  const secret = await makeKey(page, "secret");
  await page.getByText("secret").first().waitFor();
  await nowhere(page, secret);
});

test("a new secret of a key is nowhere once its dialog is closed", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  await makeKey(page, "turned");
  await page.getByRole("button", { name: "Rotate turned" }).click();
  await page.getByRole("button", { name: "Make a new secret" }).click();
  const secret = await page.getByRole("region", { name: "The key" }).textContent();
  await page.getByRole("button", { name: "I saved it" }).click();
  await page.getByText("old secret works for").waitFor();
  await nowhere(page, secret);
});

test("the key of the first run is nowhere once its page is left", async (context) => {
  const page = await signedIn(context, { path: "start" });
  await page.getByRole("button", { name: "Make a key" }).click();
  const secret = await page.getByRole("region", { name: "The key" }).textContent();
  await page.getByRole("button", { name: "I saved it" }).click();
  await page.getByText("is yours.").waitFor();
  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "API keys" }).click();
  await page.getByText("first key").waitFor();
  await nowhere(page, secret);
});

test("a sign-in token is in no address, no storage and no request line", async (context) => {
  const page = await newPage(context);
  const link = await loginLink(await newUser());
  const token = link.split("#login=")[1];
  const lines = [];
  page.on("request", (request) => lines.push(request.url(), JSON.stringify(request.headers())));
  await page.goto(link);
  const waiting = await page.evaluate(() => JSON.stringify([document.documentElement.outerHTML, { ...localStorage }, { ...sessionStorage }, location.href]));
  assert.ok(!waiting.includes(token));
  await page.getByRole("button", { name: "Sign in with this link" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  const traces = await page.evaluate(() => JSON.stringify([document.documentElement.outerHTML, { ...localStorage }, { ...sessionStorage }, location.href, history.length]));
  assert.ok(!traces.includes(token));
  assert.ok(!page.said.join("\n").includes(token));
  assert.ok(!lines.slice(2).join(" ").includes(token), "the first is the browser's own, whose fragment is not sent");
  assert.ok(!(await page.evaluate(() => document.cookie)).includes("session"));
});

test("signing out leaves nothing of the person in the tab", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  await page.getByLabel("Prompt").fill("A private thought.");
  await open(page, "settings");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
  const traces = await page.evaluate(() => JSON.stringify([document.documentElement.outerHTML, { ...localStorage }, { ...sessionStorage }]));
  assert.ok(!traces.includes("private thought"));
  assert.ok(!traces.includes(page.email));
});

test("a link pasted into an open page signs in, and stays in no address", async (context) => {
  const page = await newPage(context);
  await page.goto(consoleUrl);
  await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
  const link = await loginLink(await newUser());
  await page.evaluate((fragment) => { window.location.hash = fragment; }, new URL(link).hash);
  await page.getByRole("button", { name: "Sign in with this link" }).click();
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  assert.ok(!page.url().includes("#login="));
});

test("who signs in where somebody else has worked finds nothing of his", async (context) => {
  const page = await signedIn(context, { path: "playground" });
  await page.getByLabel("Prompt").fill("A private thought.");
  await page.context().clearCookies();  // The session is over; nobody has signed out.
  await follow(page, await loginLink(await newUser()));
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await open(page, "playground");
  assert.equal(await page.getByLabel("Prompt").inputValue(), "");
});
