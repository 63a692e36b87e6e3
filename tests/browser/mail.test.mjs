// Accounts by mail: a link that signs in, another address, the end of an account. The mails are those
// that the service has handed to its server.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, test } from "node:test";
import { closeBrowser, consoleUrl, eventually, follow, makeKey, newPage, newUser, open, signedIn, statusWith } from "./support.mjs";

after(closeBrowser);

/** The link in the newest mail to `address`. */
function mailedLink(address, kind) {
  return eventually(`a mail to ${address}`, async () => {
    const names = (await readdir(process.env.MAILS)).filter((name) => name.endsWith(".eml"));
    const mails = await Promise.all(names.map((name) => readFile(join(process.env.MAILS, name), "utf8")));
    const theirs = mails.filter((mail) => mail.includes(`To: <${address}>\r\n`));
    return theirs.map((mail) => new RegExp(`https?://\\S+?#${kind}=[\\w-]+`).exec(mail)?.[0]).find((link) => link !== undefined);
  });
}

test("a link that comes by mail signs in", async (context) => {
  const email = await newUser();
  const page = await newPage(context);
  await page.goto(consoleUrl);
  await page.getByText("Get a link by mail").click();
  await page.getByLabel("Address for the link").fill(email);
  await page.getByRole("button", { name: "Send a sign-in link" }).click();
  await page.getByText("If this address has an account, a link is on its way").waitFor();
  await follow(page, await mailedLink(email, "login"));
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  assert.deepEqual(page.faults, []);
});

test("somebody new makes an account", async (context) => {
  const email = `${randomUUID()}@example.com`;
  const page = await newPage(context);
  await page.goto(consoleUrl);
  await page.getByText("Create an account").click();
  await page.getByLabel("Address of the new account").fill(email);
  await page.getByRole("button", { name: "Send a link", exact: true }).click();
  await page.getByText("makes the account when you open it").waitFor();
  await follow(page, await mailedLink(email, "login"));
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await open(page, "settings");
  await page.getByText(`You are signed in as ${email}.`).waitFor();
});

test("another mail address, when its link is opened and not before", async (context) => {
  const page = await signedIn(context, { path: "settings" });
  const next = `${randomUUID()}@example.com`;
  await page.getByLabel("New mail address").fill(next);
  await page.getByRole("button", { name: "Send the link" }).click();
  await page.getByText(`A link is on its way to ${next}.`).waitFor();
  await page.goto(await mailedLink(next, "mail"));
  const dialog = page.getByRole("dialog", { name: "Confirm your new mail address" });
  await dialog.waitFor();
  assert.equal(page.url().includes("#"), false, "the token is not left in the address");
  await dialog.getByText(page.email).waitFor();
  await dialog.getByRole("button", { name: "Confirm" }).click();
  await dialog.waitFor({ state: "detached" });
  await open(page, "settings");
  await page.getByText(`You are signed in as ${next}.`).waitFor();
  assert.deepEqual(page.faults, []);
});

test("another mail address that was confirmed is changed, though the session cannot be read", async (context) => {
  const page = await signedIn(context, { path: "settings" });
  const next = `${randomUUID()}@example.com`;
  await page.getByLabel("New mail address").fill(next);
  await page.getByRole("button", { name: "Send the link" }).click();
  await page.goto(await mailedLink(next, "mail"));
  const dialog = page.getByRole("dialog", { name: "Confirm your new mail address" });
  await dialog.waitFor();
  const session = "**/console/api/v1/sessions/current";
  await page.route(session, (route) => route.abort());
  await dialog.getByRole("button", { name: "Confirm" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.equal(await page.getByText("The address was not changed.").count(), 0);
  await page.unroute(session);
  await open(page, "settings");
  await page.getByText(`You are signed in as ${next}.`).waitFor();
  assert.deepEqual(page.faults, []);
});

test("an account is deleted by whoever types its address and gives up its credits", async (context) => {
  const page = await signedIn(context, { path: "keys" });
  const key = await makeKey(page, "last");
  await open(page, "settings");
  await page.getByRole("button", { name: "Delete the account" }).click();
  const dialog = page.getByRole("dialog", { name: "Delete the account?" });
  await dialog.getByRole("button", { name: "Delete for good" }).click();
  await dialog.getByText("That is not your mail address.").waitFor();
  await dialog.getByLabel("Type your mail address").fill(page.email);
  await dialog.getByRole("button", { name: "Delete for good" }).click();
  await dialog.getByText("Say that the credits are lost").waitFor();
  assert.equal(await statusWith(key), 200);
  await dialog.getByLabel("I lose 1,000 credits").check();
  await dialog.getByRole("button", { name: "Delete for good" }).click();
  await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
  await eventually("its key is dead", async () => (await statusWith(key)) === 401);
  await page.reload();
  await page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
});
