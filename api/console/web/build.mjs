// node build.mjs OUTDIR: OUTDIR/index.html and OUTDIR/assets/NAME-HASH.(js|css|svg). The same sources
// make the same bytes, and the name of a file changes with what is in it, so it may be kept for ever.
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const served = "/console/assets/";

/** What a browser of the last three years can do. */
const target = ["chrome123", "firefox120", "safari17.5"];

async function bundle(entry, format) {
  const result = await build({
    entryPoints: [join(here, "src", entry)],
    bundle: true,
    format,
    target,
    minify: true,
    legalComments: "none",
    jsx: "automatic",
    jsxImportSource: "preact",
    outdir: "assets",
    write: false,
    absWorkingDir: here,
    logLevel: "warning",
  });
  return result.outputFiles.map((file) => ({ name: basename(file.path), contents: file.contents }));
}

function named({ name, contents }) {
  const hash = createHash("sha256").update(contents).digest("hex").slice(0, 12);
  return `${basename(name, extname(name))}-${hash}${extname(name)}`;
}

async function main(outdir) {
  const files = [
    ...(await bundle("main.tsx", "esm")),
    // In front of everything else, so it is no module: modules wait for the document.
    ...(await bundle("early.ts", "iife")),
    { name: "icon.svg", contents: await readFile(join(here, "src/icon.svg")) },
  ];
  let page = await readFile(join(here, "index.html"), "utf8");
  await rm(outdir, { recursive: true, force: true });
  await mkdir(join(outdir, "assets"), { recursive: true });
  for (const file of files) {
    page = page.replaceAll(`{{${file.name}}}`, served + named(file));
    await writeFile(join(outdir, "assets", named(file)), file.contents);
  }
  if (page.includes("{{")) {
    throw new Error("index.html names a file that was not made");
  }
  await writeFile(join(outdir, "index.html"), page);
}

const [outdir, ...rest] = process.argv.slice(2);
if (outdir === undefined || rest.length > 0) {
  console.error("usage: node build.mjs OUTDIR");
  process.exit(2);
}
await main(outdir);
