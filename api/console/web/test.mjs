// node test.mjs: the tests of what is pure, compiled as the pages are, by Node's own runner.
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const tests = join(dirname(fileURLToPath(import.meta.url)), "test");
const folder = await mkdtemp(join(tmpdir(), "console-test-"));
try {
  const names = (await readdir(tests)).filter((name) => name.endsWith(".test.ts"));
  await build({
    entryPoints: names.map((name) => join(tests, name)),
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node18",
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    sourcemap: "inline",
    logLevel: "warning",
  });
  const made = names.map((name) => join(folder, name.replace(/\.ts$/, ".mjs")));
  const run = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...made], {
    // Whatever the time zone: days and their bounds are the reader's.
    stdio: "inherit", env: { ...process.env, TZ: "America/New_York" },
  });
  process.exitCode = run.status ?? 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}
