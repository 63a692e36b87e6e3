// What the browser tests share: accounts by the operators' command line, pages in Chromium, waiting.
import { execFile } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

/** Where the API under test listens; the same as its PUBLIC_URL. */
export const base = process.env.BASE_URL;
export const consoleUrl = `${base}/console/`;
/** How long anything may take that happens at once on a machine with nothing else to do. */
export const limit = 60_000;

const axeSource = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

const run = promisify(execFile);

/** Standard output of `audio-api admin …`. */
export async function admin(...words) {
  const [program, ...first] = JSON.parse(process.env.ADMIN);
  const { stdout } = await run(program, [...first, ...words]);
  return stdout;
}

/** Has the process that runs the tests do what only it can; what it has to say to that. */
export async function control(what, body = "") {
  const response = await fetch(process.env.CONTROL_URL + what, { method: "POST", body });
  if (!response.ok) {
    throw new Error(`${what}: ${response.status}`);
  }
  return response.text();
}

/** A user of its own for every test, so that none sees what another left. */
export async function newUser({ credits = 1000, plan = "paid" } = {}) {
  const email = `${randomUUID()}@example.com`;
  await admin("user", "create", "--email", email, "--plan", plan);
  if (credits > 0) {
    await admin("credits", "grant", "--user", email, "--credits", String(credits), "--kind", "bonus", "--reference", `test-${email}`);
  }
  return email;
}

export async function loginLink(email) {
  const link = /https?:\/\/\S+?#login=[\w-]+/.exec(await admin("user", "login-link", "--user", email));
  return link[0];
}

/** A Chromium with `settings` of its own. */
export function launch(...settings) {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    // Its sandbox wants a user that is not root.
    args: [...(process.getuid() === 0 ? ["--no-sandbox"] : []), "--autoplay-policy=no-user-gesture-required", ...settings],
  });
}

let shared;
/** One Chromium for the tests of a file; closed by `closeBrowser`. */
export async function browser() {
  shared ??= await launch();
  return shared;
}

export async function closeBrowser() {
  await (await shared)?.close();
}

/**
 * A page in a browser profile of its own that notes what no page of ours may do: requests to another
 * host, reports of the content security policy, errors of scripts. `recording`: what is seen and done
 * there is kept, however the test ends, as RECORDINGS/<recording>.zip; `node_modules/.bin/playwright-core
 * show-trace` plays it. `within`: not the shared browser, but this one.
 */
export async function newPage(context, { recording, within, ...options } = {}) {
  const profile = await (within ?? await browser()).newContext({
    viewport: { width: 1280, height: 800 }, reducedMotion: "reduce",
    // Attempts to sign in are counted by address, and every test signs in.
    extraHTTPHeaders: { "X-Forwarded-For": `10.${[...randomBytes(3)].join(".")}` },
    ...options,
  });
  if (recording) {
    await profile.tracing.start({ screenshots: true, snapshots: true });
    context.after(() => profile.tracing.stop({ path: join(process.env.RECORDINGS, `${recording}.zip`) }));
  }
  context.after(() => profile.close());
  const page = await profile.newPage();
  watch(page);
  page.setDefaultTimeout(limit);
  return page;
}

/** In `page.faults`; what the page writes to the browser's console, in `page.said`. */
export function watch(page) {
  page.faults = [];
  page.said = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(`${base}/`) && !/^(blob|data):/.test(request.url())) {
      page.faults.push(`request to ${request.url()}`);
    }
  });
  page.on("pageerror", (error) => page.faults.push(`error: ${error.message}`));
  page.on("console", (message) => {
    page.said.push(message.text());
    if (/Content Security Policy|Refused to/i.test(message.text())) {
      page.faults.push(message.text());
    }
  });
}

/** Opens a sign-in link and does what its page asks for. */
export async function follow(page, link) {
  await page.goto(link);
  await page.getByRole("button", { name: "Sign in with this link" }).click();
}

/** Signed in by a link, on the page at `path` of the console. */
export async function signedIn(context, { user, path = "", ...options } = {}) {
  const email = user ?? (await newUser());
  const page = await newPage(context, options);
  await follow(page, await loginLink(email));
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  if (path !== "") {
    await open(page, path);
  }
  page.email = email;
  return page;
}

export async function open(page, path) {
  await page.goto(consoleUrl + path);
  await settled(page);
}

/** Everything that was asked for has been answered and drawn. */
export async function settled(page) {
  await page.locator("#main h1").first().waitFor({ state: "attached" });
  // What a page asks for it asks for once it has been painted; until then it is not busy either.
  await page.evaluate(() => new Promise((painted) => {
    requestAnimationFrame(() => setTimeout(() => requestAnimationFrame(() => setTimeout(painted))));
  }));
  await page.waitForFunction(() => document.querySelector('#main [aria-busy="true"], #main[aria-busy="true"], .skeleton') === null);
}

/** Waits until `condition` gives something true, and gives that. */
export async function eventually(what, condition, within = limit) {
  const end = Date.now() + within;
  for (;;) {
    const result = await condition();
    if (result) {
      return result;
    }
    if (Date.now() > end) {
      throw new Error(`never came true: ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/**
 * For what is counted by the day or the month: in the last minutes of a day (UTC) it waits for the
 * next one, in which the test then is from its beginning to its end, though single steps of it may
 * take a minute.
 */
export function waitOutMidnight() {
  const day = 86_400_000;
  const longest = 300_000;
  return eventually("it is not shortly before midnight", () => day - (Date.now() % day) > longest, 2 * longest);
}

/** An answer that refuses, in the service's form, for a page to be given in place of its own. */
export function refusal(status, code, headers = {}, message = "A sentence of the service.") {
  return {
    status, headers: { "X-Request-Id": "req_test0000000000", ...headers }, contentType: "application/json",
    body: JSON.stringify({ error: { code, message, request_id: "req_test0000000000" } }),
  };
}

/** A request of the page's own session. */
export function ask(page, method, path, body) {
  return page.evaluate(async ([method, path, body]) => {
    const response = await fetch(`/console/api/v1${path}`, {
      method,
      headers: body === undefined ? {} : { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    return { status: response.status, text, body: text.startsWith("{") ? JSON.parse(text) : undefined };
  }, [method, path, body]);
}

/** Makes a generation by the session and waits for its end. */
export async function generated(page, prompt, more = {}) {
  const models = await ask(page, "GET", "/models");
  const created = await ask(page, "POST", "/audio/generations", { model: models.body.data[0].id, prompt, ...more });
  return eventually(`${prompt} is final`, async () => {
    const now = await ask(page, "GET", `/audio/generations/${created.body.id}`);
    return ["succeeded", "failed", "canceled"].includes(now.body?.status) && now.body;
  });
}

/** Writes the prompt into the playground and presses the button. */
export async function generate(page, prompt) {
  await page.getByLabel("Prompt").fill(prompt);
  await page.getByRole("button", { name: "Generate" }).click();
}

/** Presses one of buttons of which one is down, as a person does: where it is once it stands still. */
export async function choose(page, name) {
  const radio = page.getByRole("radio", { name });
  await page.locator("label").filter({ has: radio }).click();
  await eventually(`${name} is chosen`, () => radio.isChecked());
}

/** Presses a button that says for two seconds that it has copied: once more if nobody saw that in time. */
export function copy(where, name) {
  return eventually("it says that it has copied", async () => {
    await where.getByRole("button", { name }).click();
    return where.getByRole("button", { name: "Copied" }).waitFor({ timeout: 2000 }).then(() => true, () => false);
  });
}

/** Makes a key in the dialog; its secret. */
export async function makeKey(page, name) {
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill(name);
  await page.getByRole("button", { name: "Make the key" }).click();
  const secret = await page.getByRole("region", { name: "The key" }).textContent();
  await page.getByRole("button", { name: "I saved it" }).click();
  return secret;
}

/** The status that a bearer key gets. */
export async function statusWith(key) {
  return (await fetch(`${base}/api/v1/account`, { headers: { Authorization: `Bearer ${key}` } })).status;
}

/** What axe has to say against the page. */
export async function violations(page) {
  if (!(await page.evaluate(() => "axe" in window))) {
    // By the debugger's door: the page's own policy lets in no script but its own.
    await page.evaluate(await readFile(axeSource, "utf8"));
  }
  // Colours that are on their way to another theme are nobody's: what moves and ends has ended.
  await page.evaluate(() => Promise.allSettled(document.getAnimations()
    .filter((one) => one.effect?.getComputedTiming().endTime !== Infinity).map((one) => one.finished)));
  const { violations: found } = await page.evaluate((tags) => window.axe.run(document, { runOnly: tags }), rules);
  return found.map((one) => `${one.id}: ${one.nodes.map((node) => `${node.html} (${node.failureSummary})`).join(" | ")}`);
}
