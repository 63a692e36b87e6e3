// node look.mjs FOLDER: every page in both themes and three widths as pictures, for people to look at; nothing
// compares them. Wants BASE_URL and ADMIN of a running stack, for example
//   BASE_URL=$(./dev up | head -n 1 | sed 's|/api/v1$||') ADMIN='["./dev","admin"]'
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { ask, closeBrowser, generated, loginLink, makeKey, newPage, newUser, consoleUrl, open, signedIn } from "./support.mjs";

const [folder] = process.argv.slice(2);
const never = { after: () => undefined };
const widths = [360, 768, 1280];

async function shoot(page, name, act = async () => undefined) {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of widths) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.setViewportSize({ width, height: width === 360 ? 740 : 860 });
      await act();
      await page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`) });
    }
  }
}

await mkdir(folder, { recursive: true });
const out = await newPage(never);
await out.goto(consoleUrl);
await out.getByRole("heading", { level: 1, name: "Sign in" }).waitFor();
await shoot(out, "sign-in");
await out.goto(await loginLink(await newUser()));
await out.getByRole("button", { name: "Sign in with this link" }).waitFor();
await shoot(out, "link");

const empty = await signedIn(never, { user: await newUser({ credits: 0 }) });
for (const path of ["", "history", "keys", "billing"]) {
  await shoot(empty, `empty-${path || "overview"}`, () => open(empty, path));
}

const page = await signedIn(never);
for (const [prompt, more] of [
  ["Good morning. The train to the coast leaves in ten minutes from platform four. Please mind the gap between the train and the platform.", { voice: "sage" }],
  ["Chapter one. It was a bright cold day in April, and the clocks were striking thirteen.", { voice: "albion", output_format: "wav" }],
  ["Mind the gap.", {}],
]) {
  await generated(page, prompt, more);
}
await open(page, "keys");
await makeKey(page, "laptop");
await makeKey(page, "build server");
const { body: list } = await ask(page, "GET", "/audio/generations");
for (const path of ["", "start", "playground", "history", `generations/${list.data[1].id}`, "keys", "usage?by=voice", "billing", "reference", "settings"]) {
  await shoot(page, path.split(/[/?]/)[0] || "overview", () => open(page, path));
}
await open(page, "playground");
await page.getByLabel("Prompt").fill("Good morning. The train to the coast leaves in ten minutes.");
await page.getByRole("radio", { name: /^Sage/ }).check();
await page.getByRole("button", { name: "Generate" }).click();
await page.getByText("credits charged").waitFor();
await page.locator("canvas.waveform").waitFor();
await shoot(page, "played", () => open(page, "playground").then(() => page.locator("canvas.waveform").waitFor()));
await open(page, "reference");
await shoot(page, "try", async () => {
  await open(page, "reference");
  await page.locator("#createAudioGeneration summary").first().click();
  await page.locator("#createAudioGeneration").getByText("Try it", { exact: true }).click();
  const form = page.getByRole("form", { name: "Try createAudioGeneration" });
  await form.getByRole("button", { name: "Send" }).click();
  await form.locator(".answer pre").waitFor();
  await form.scrollIntoViewIfNeeded();
});
const waiting = JSON.stringify({ waiting_on: "capacity", position: 3, start_in_seconds: { p50: 2, p90: 5 }, done_in_seconds: { p50: 4, p90: 9 } });
const open1 = { ...list.data[0], status: "processing", output: null, usage: null, billing: { reserved_credits: 150 } };
await page.route(/generations\/aud_[^/]+$/, (route) => route.fulfill({ json: open1 }));
await page.route(/\/events$/, (route) => route.fulfill({ contentType: "text/event-stream", body: `event: progress\ndata: ${waiting}\n\n` }));
await shoot(page, "waiting", async () => {
  await open(page, `generations/${list.data[0].id}`);
  await page.getByText("Number 3 in line").waitFor();
});
await closeBrowser();
