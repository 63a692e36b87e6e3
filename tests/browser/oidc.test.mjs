// Signing in by an issuer, all the way in a browser: from the page to the issuer, which is another
// site, back by the callback, and into the console; again to confirm who it is; and as somebody else.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, closeBrowser, consoleUrl, newPage, newUser, open, settled } from "./support.mjs";
import { startIssuer } from "./issuer.mjs";

let issuer;
before(async () => { issuer = await startIssuer(Number(process.env.ISSUER_PORT)); });
after(async () => {
  await closeBrowser();
  await issuer.stop();
});

const out = (page) => page.getByRole("heading", { level: 1, name: "Sign in" });
const way = (page) => page.getByRole("button", { name: "Sign in with your organization" });

/** On the page of the issuer, which asks. */
async function signInThere(page, email) {
  await page.getByRole("heading", { name: "The organization" }).waitFor();
  assert.ok(page.url().startsWith(`${issuer.address}/auth?`));
  await page.getByLabel("Who").fill(email);
  await page.getByRole("button", { name: "Go on" }).click();
}

async function backIn(page) {
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await settled(page);
  assert.equal(page.url(), consoleUrl, "nothing of the attempt stays in the address");
}

async function signOut(page) {
  await open(page, "settings");
  await page.getByRole("button", { name: "Sign out" }).click();
  await out(page).waitFor();
}

const whoIs = async (page) => (await ask(page, "GET", "/sessions/current")).body.email;
const cookies = async (page) => Object.fromEntries((await page.context().cookies(consoleUrl)).map((cookie) => [cookie.name, cookie]));
/** What a page of ours may not do, but for going to the issuer. */
const faults = (page) => page.faults.filter((fault) => !fault.startsWith(`request to ${issuer.address}/`));

test("in by the issuer, the second time without being asked, and fresh only by being asked", async (context) => {
  const ann = await newUser();
  const page = await newPage(context);
  await page.goto(consoleUrl);
  await out(page).waitFor();
  await way(page).click();
  await page.getByRole("heading", { name: "The organization" }).waitFor();
  const attempt = (await cookies(page)).oidc;
  assert.equal(attempt.sameSite, "Lax", "Strict would not come back from another site");
  assert.equal(attempt.path, "/console");
  assert.ok(attempt.httpOnly && attempt.expires > 0);
  assert.equal(issuer.asked.at(-1).prompt, undefined);
  await signInThere(page, ann);
  await backIn(page);
  assert.equal(await whoIs(page), ann);
  const { oidc, session } = await cookies(page);
  assert.equal(oidc, undefined, "an attempt is used once");
  assert.deepEqual([session.sameSite, session.path, session.httpOnly], ["Lax", "/console", true]);
  assert.equal((await ask(page, "PUT", "/password", { password: "correct horse battery" })).status, 204, "fresh");

  // He showed himself an hour ago: the issuer lets him pass, and that is not fresh.
  await signOut(page);
  issuer.signedIn.at -= 3600;
  await way(page).click();
  await backIn(page);
  assert.equal(await whoIs(page), ann);
  const key = (await ask(page, "PUT", "/password", { password: "another horse battery" }));
  assert.deepEqual([key.status, key.body.error.code], [403, "step_up_required"]);
  await open(page, "playground");
  await page.getByLabel("Prompt").fill("Words of Ann's.");

  // Asked to confirm, he is sent there, and has to sign in though he is signed in.
  await open(page, "settings");
  await page.getByRole("button", { name: "Unlink localhost" }).click();
  await page.getByRole("button", { name: "Unlink it" }).click();
  const confirm = page.getByRole("dialog", { name: "Confirm that it is you" });
  await way(confirm).click();
  await signInThere(page, ann);
  assert.deepEqual([issuer.asked.at(-1).prompt, issuer.asked.at(-1).max_age], ["login", "0"]);
  await backIn(page);
  assert.equal(await whoIs(page), ann);
  await open(page, "playground");
  assert.equal(await page.getByLabel("Prompt").inputValue(), "Words of Ann's.", "he finds what he left");
  assert.equal((await ask(page, "PUT", "/password", { password: "another horse battery", current_password: "correct horse battery" })).status, 204);
  assert.deepEqual(faults(page), []);
});

test("somebody else comes back: his console, and nothing of hers in this tab or another", async (context) => {
  const ann = await newUser(), bob = await newUser();
  issuer.signedIn = undefined;
  const page = await newPage(context);
  await page.goto(consoleUrl);
  await way(page).click();
  await signInThere(page, ann);
  await backIn(page);
  await open(page, "playground");
  await page.getByLabel("Prompt").fill("Words of Ann's.");
  const other = await page.context().newPage();
  await open(other, "keys");

  // She is signed out elsewhere, and Bob signs in over what this tab shows.
  const { body: { id } } = await ask(page, "GET", "/sessions/current");
  assert.equal((await ask(other, "DELETE", `/sessions/${id}`)).status, 204);
  await page.reload();
  await out(page).waitFor();
  issuer.signedIn = undefined;
  await way(page).click();
  await signInThere(page, bob);
  await backIn(page);
  assert.equal(await whoIs(page), bob);
  await open(page, "playground");
  assert.equal(await page.getByLabel("Prompt").inputValue(), "");
  // What her other tab asks for is refused, and it starts anew as his.
  await other.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Settings" }).click();
  await other.getByText(bob).first().waitFor();
  assert.equal(await other.getByText(ann).count(), 0);
});

test("two tabs begin: the first to come back is refused, and the other's attempt goes on", async (context) => {
  const ann = await newUser();
  const page = await newPage(context);
  issuer.signedIn = undefined;
  await page.goto(consoleUrl);
  const other = await page.context().newPage();
  await other.goto(consoleUrl);
  await way(page).click();
  await page.getByRole("heading", { name: "The organization" }).waitFor();
  await way(other).click();
  await other.getByRole("heading", { name: "The organization" }).waitFor();
  await signInThere(page, ann);
  await page.getByRole("alert").getByText("That did not sign you in.").waitFor();
  await signInThere(other, ann);
  await backIn(other);
  assert.equal(await whoIs(other), ann);
});

test("an issuer that refuses, and one whose answer is of another attempt, sign nobody in", async (context) => {
  const page = await newPage(context);
  issuer.signedIn = undefined;
  await page.goto(consoleUrl);
  await way(page).click();
  const attempt = await page.waitForURL(`${issuer.address}/**`).then(() => new URL(page.url()).searchParams);
  for (const answer of [{ error: "access_denied", state: attempt.get("state") }, { code: "c", state: "x" }]) {
    await page.goto(`${attempt.get("redirect_uri")}?${new URLSearchParams(answer)}`);
    await out(page).waitFor();
    await page.getByRole("alert").getByText("That did not sign you in.").waitFor();
    assert.equal(page.url(), consoleUrl);
  }
  const left = await cookies(page);
  assert.deepEqual([left.oidc, left.session], [undefined, undefined]);
});
