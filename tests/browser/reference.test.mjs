// The API reference, and what is sent from it.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { admin, ask, base, choose, closeBrowser, generated, open, signedIn } from "./support.mjs";

after(closeBrowser);

/** The form of an operation, by its id, opened. */
async function form(page, id) {
  const operation = page.locator(`#${id}`);
  await operation.locator("summary").first().click();
  await operation.getByText("Try it", { exact: true }).click();
  const found = page.getByRole("form", { name: `Try ${id}` });
  await found.waitFor();
  return found;
}

const send = (form) => form.getByRole("button", { name: "Send" }).click();
const answer = (form) => form.locator(".answer");

async function secretOf(email) {
  return JSON.parse(await admin("key", "create", "--user", email, "--name", "try", "--json")).key;
}

test("as the session: status, time, headers, body", async (context) => {
  const page = await signedIn(context, { path: "reference" });
  const account = await form(page, "getAccount");
  const [request] = await Promise.all([page.waitForRequest(/\/api\/v1\/account$/), send(account)]);
  assert.equal(request.url(), `${base}/console/api/v1/account`);
  assert.equal(request.headers()["authorization"], undefined);
  assert.match(request.headers()["x-account"], /^usr_/, "it acts for nobody else whose cookie this browser has by now");
  await answer(account).getByText("200", { exact: true }).waitFor();
  assert.match(await answer(account).textContent(), /\d+ ms/);
  assert.ok((await answer(account).locator("pre").textContent()).includes(`"email": "${page.email}"`));
  await answer(account).getByText(/^\d+ headers$/).click();
  await answer(account).getByRole("cell", { name: "application/json" }).waitFor();
  assert.deepEqual(page.faults, []);
});

test("with a key: as a program sends it; a wrong one is told, and nothing is kept of either", async (context) => {
  const page = await signedIn(context, { path: "reference" });
  const key = await secretOf(page.email);
  const account = await form(page, "getAccount");
  await choose(page, "An API key");
  await send(account);
  await page.getByText("Paste a key above").waitFor();
  await page.getByRole("textbox", { name: "API key" }).fill("svc_live_ab12\u2026");  // As the list of keys shows it.
  await send(account);
  await page.getByText("A key has letters, digits and signs of ASCII only").waitFor();
  await page.getByRole("textbox", { name: "API key" }).fill(key);
  const [request] = await Promise.all([page.waitForRequest(/\/api\/v1\/account$/), send(account)]);
  assert.equal(request.url(), `${base}/api/v1/account`);
  assert.equal((await request.allHeaders())["authorization"], `Bearer ${key}`);
  assert.equal((await request.allHeaders())["cookie"], undefined);
  assert.equal((await request.allHeaders())["x-account"], undefined);
  await answer(account).getByText("200", { exact: true }).waitFor();
  const traces = () => page.evaluate(() => JSON.stringify([document.documentElement.outerHTML, { ...localStorage }, { ...sessionStorage }, location.href, history.state, document.cookie]));
  assert.ok(!(await traces()).includes(key));

  await page.getByRole("textbox", { name: "API key" }).fill("svc_live_wrong");
  await send(account);
  await answer(account).getByText("401", { exact: true }).waitFor();
  assert.ok((await answer(account).locator("pre").textContent()).includes("invalid_api_key"));

  await page.getByRole("textbox", { name: "API key" }).fill(key);
  await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: "Usage" }).click();
  await page.getByRole("heading", { level: 1, name: "Usage" }).waitFor();
  await page.goBack();
  await choose(page, "An API key");
  assert.equal(await page.getByRole("textbox", { name: "API key" }).inputValue(), "");
  assert.ok(!(await traces()).includes(key));
});

test("a creation: the example is filled in and can be sent", async (context) => {
  const page = await signedIn(context, { path: "reference" });
  const create = await form(page, "createAudioGeneration");
  await create.getByLabel("Body, JSON").fill("{");
  await send(create);
  await create.getByText("That is no JSON").waitFor();
  const models = await ask(page, "GET", "/models");
  await create.getByLabel("Body, JSON").fill(JSON.stringify({ model: models.body.data[0].id, prompt: "Tried." }));
  await send(create);
  await answer(create).getByText("202", { exact: true }).waitFor();
  const key = await create.getByLabel("Idempotency-Key").inputValue();
  assert.match(key, /^[0-9a-f-]{36}$/);
  await send(create);
  await answer(create).getByText(/^\d+ headers$/).waitFor();
  assert.equal((await ask(page, "GET", "/audio/generations")).body.data.length, 1, "the same key is the same creation");

  const estimate = await form(page, "estimateAudioGeneration");
  assert.ok((await estimate.getByLabel("Body, JSON").inputValue()).includes('"prompt"'));
  await send(estimate);
  await answer(estimate).getByText("200", { exact: true }).waitFor();
});

test("what cannot be taken back is asked about first", async (context) => {
  const page = await signedIn(context);
  const made = await generated(page, "To be deleted.");
  await open(page, "reference");
  const remove = await form(page, "deleteAudioGeneration");
  await remove.getByLabel("task_id").fill(made.id);
  let sent = 0;
  page.on("request", (request) => { sent += request.method() === "DELETE" ? 1 : 0; });
  await send(remove);
  await page.getByRole("dialog", { name: "Send it?" }).getByText(`DELETE /audio/generations/${made.id}`).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.equal(sent, 0);
  await send(remove);
  await page.getByRole("dialog").getByRole("button", { name: "Send" }).click();
  await answer(remove).getByText("204", { exact: true }).waitFor();
  assert.equal(sent, 1);
});

test("parameters: required ones are filled in, choices are choices, and what is missing is told", async (context) => {
  const page = await signedIn(context, { path: "reference" });
  const get = await form(page, "getAudioGeneration");
  assert.match(await get.getByLabel("task_id").inputValue(), /^aud_/);
  await get.getByLabel("task_id").fill("");
  await send(get);
  await get.getByText("It is required.").waitFor();
  await get.getByLabel("task_id").fill("../account?x=");
  const [request] = await Promise.all([page.waitForRequest(/audio\/generations\/\.\.%2F/i), send(get)]);
  assert.ok(request.url().endsWith("/audio/generations/..%2Faccount%3Fx%3D"));
  await answer(get).getByText("404", { exact: true }).waitFor();

  const list = await form(page, "listAudioGenerations");
  await list.getByText(/optional parameters$/).click();
  await list.getByLabel("status").selectOption("succeeded");
  const [listed] = await Promise.all([page.waitForRequest(/audio\/generations\?/), send(list)]);
  assert.ok(listed.url().endsWith("?status=succeeded"));
});

test("without a connection it says so, and the description stays", async (context) => {
  const page = await signedIn(context, { path: "reference" });
  const account = await form(page, "getAccount");
  await page.context().setOffline(true);
  await send(account);
  await page.getByText("It could not be sent.").waitFor();
  await page.context().setOffline(false);
  await send(account);
  await answer(account).getByText("200", { exact: true }).waitFor();
});
