// Passkeys, with Chromium's virtual authenticator: added, used, renamed, removed; what a person sees who has none, or does
// not go on.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { ask, closeBrowser, consoleUrl, eventually, newPage, newUser, open, refusal, signedIn, violations } from "./support.mjs";

after(closeBrowser);

/** A device that keeps passkeys and, unless `verified` is false, knows whose finger it is. */
async function device(page, { verified = true } = {}) {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("WebAuthn.enable");
  const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2", ctap2Version: "ctap2_1", transport: "internal", hasResidentKey: true, hasUserVerification: true,
      isUserVerified: verified, automaticPresenceSimulation: true,
    },
  });
  const send = (method, more = {}) => cdp.send(`WebAuthn.${method}`, { authenticatorId, ...more });
  return {
    verify: (isUserVerified) => send("setUserVerified", { isUserVerified }),
    credentials: async () => (await send("getCredentials")).credentials,
    remove: (credentialId) => send("removeCredential", { credentialId }),
    put: (credential) => send("addCredential", { credential }),
  };
}

const card = (page) => page.getByRole("region", { name: "Passkeys" });

async function addOne(page) {
  await open(page, "settings");
  const before = await card(page).getByRole("listitem").count();
  await page.getByRole("button", { name: "Add a passkey" }).click();
  await eventually("it is listed", async () => (await card(page).getByRole("listitem").count()) === before + 1);
}

async function signOut(page) {
  await open(page, "settings");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
}

const withPasskey = (page) => page.getByRole("button", { name: "Sign in with a passkey" }).click();

test("add one, sign out, sign in with it, rename, remove", async (context) => {
  const page = await signedIn(context);
  const phone = await device(page);
  await addOne(page);
  assert.match(await card(page).textContent(), /Chrome on Linux/);
  assert.match(await card(page).textContent(), /never used/);
  const [credential] = await phone.credentials();
  assert.equal(credential.isResidentCredential, true);
  assert.equal(credential.rpId, "localhost");

  await page.getByRole("button", { name: "Add a passkey" }).click();
  await page.getByText("This device has a passkey for this account already.").waitFor();

  await signOut(page);
  await withPasskey(page);
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  assert.equal((await ask(page, "GET", "/sessions/current")).body.email, page.email);

  await open(page, "settings");
  await card(page).getByText("used just now").waitFor();
  await page.getByRole("button", { name: "Rename Chrome on Linux" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("Telephone");
  await page.getByRole("button", { name: "Rename", exact: true }).click();
  await page.getByRole("button", { name: "Remove Telephone" }).click();
  await page.getByRole("button", { name: "Remove the passkey" }).click();
  await page.getByText("This is the only way into the account").waitFor();
  await page.getByRole("button", { name: "Keep it" }).click();

  await page.getByLabel("Password").fill("correct horse and some staples");
  await page.getByRole("button", { name: "Set a password" }).click();
  await page.getByText("Saved.").waitFor();
  await page.getByRole("button", { name: "Remove Telephone" }).click();
  await page.getByRole("button", { name: "Remove the passkey" }).click();
  await card(page).getByText("None yet.").waitFor();
  await signOut(page);
  await withPasskey(page);
  await page.getByText("That passkey did not sign you in").waitFor();
  assert.equal((await ask(page, "GET", "/account")).status, 401);
  assert.deepEqual(page.faults, []);
});

test("nobody who was not verified signs in, and a device without one says so", async (context) => {
  const page = await signedIn(context);
  const phone = await device(page);
  await addOne(page);
  await signOut(page);
  await phone.verify(false);
  await withPasskey(page);
  await page.getByText("No passkey was used.").waitFor();
  await phone.verify(true);
  const [{ credentialId }] = await phone.credentials();
  await phone.remove(credentialId);
  await withPasskey(page);
  await eventually("it was asked again", async () => (await page.getByRole("alert").count()) === 1);
  assert.equal((await ask(page, "GET", "/account")).status, 401);
});

test("a copy whose counter lags behind is refused", async (context) => {
  const page = await signedIn(context);
  const phone = await device(page);
  await addOne(page);
  const [copy] = await phone.credentials();
  await signOut(page);
  await withPasskey(page);
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await signOut(page);
  await phone.remove(copy.credentialId);
  await phone.put({ ...copy, signCount: 0 });
  await withPasskey(page);
  await page.getByText("That passkey did not sign you in").waitFor();
});

test("an answer that was sent is worth nothing to whoever has seen it", async (context) => {
  const page = await signedIn(context);
  await device(page);
  await addOne(page);
  await signOut(page);
  const [request] = await Promise.all([
    page.waitForRequest((sent) => sent.url().endsWith("/sessions/passkey")), withPasskey(page),
  ]);
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  const thief = await newPage(context);
  await thief.goto(consoleUrl);
  const again = await ask(thief, "POST", "/sessions/passkey", request.postDataJSON());
  assert.equal(again.status, 401);
  assert.equal(again.body.error.code, "invalid_login");
});

test("where the service wants a fresh sign-in, one is confirmed before a passkey is added or removed, by a passkey as well", async (context) => {
  const page = await signedIn(context, { user: await newUser() });
  await device(page);
  await addOne(page);
  const sheet = page.getByRole("dialog", { name: "Confirm that it is you" });
  // The service's word is what counts: by this browser's clock the sign-in is fresh.
  const confirmed = async (path, button) => {
    await page.route(`**/console/api/v1/passkeys/${path}`, (route) => route.fulfill(refusal(403, "step_up_required")), { times: 1 });
    await button.click();
    await sheet.waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
    await sheet.getByRole("button", { name: "Sign in with a passkey" }).click();
    await sheet.waitFor({ state: "detached" });
  };
  await confirmed("invitation", page.getByRole("button", { name: "Add a passkey" }));
  await page.getByText("This device has a passkey for this account already.").waitFor();
  await page.reload();
  await page.getByRole("button", { name: /^Remove / }).click();
  await confirmed("*", page.getByRole("button", { name: "Remove the passkey" }));
  await page.getByText("This is the only way into the account").waitFor();
  assert.equal((await ask(page, "GET", "/sessions")).body.data.length, 1, "the new session takes the place of the old");
});

test("axe: where passkeys are", async (context) => {
  const page = await signedIn(context);
  await device(page);
  await addOne(page);
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [320, 1280]) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.setViewportSize({ width, height: 900 });
      await open(page, "settings");
      assert.deepEqual(await violations(page), []);
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0);
      for (const button of [/^Rename /, /^Remove /]) {
        await page.getByRole("button", { name: button }).first().click();
        assert.deepEqual(await violations(page), []);
        await page.keyboard.press("Escape");
      }
    }
  }
  await signOut(page);
  assert.deepEqual(await violations(page), []);
});
