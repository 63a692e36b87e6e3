// node embed.mjs FOLDER OUTPUT.cc: every file of FOLDER as a constant of C++, and packed by gzip
// where that is smaller. See api/console/embedded_pages.h.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const [folder, output] = process.argv.slice(2);

function files(below) {
  return readdirSync(join(folder, below), { withFileTypes: true })
    .flatMap((entry) => {
      const path = below === '' ? entry.name : `${below}/${entry.name}`;
      return entry.isDirectory() ? files(path) : [path];
    })
    .sort();
}

// Octal escapes have three digits at most, so what follows one is never taken for a part of it.
const spelled = Array.from({ length: 256 }, (_, byte) => {
  const char = String.fromCharCode(byte);
  return /[A-Za-z0-9 !#$%&'()*+,\-./:;<=>@[\]^_`{|}~]/.test(char)
    ? char
    : `\\${byte.toString(8).padStart(3, '0')}`;
});

function literal(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 1024) {
    lines.push(`"${Array.from(bytes.subarray(at, at + 1024), (byte) => spelled[byte]).join('')}"`);
  }
  // With its length: there may be a NUL in it.
  return `std::string_view(${lines.join('\n') || '""'}, ${bytes.length})`;
}

const pages = files('').map((path) => {
  const bytes = readFileSync(join(folder, path));
  const packed = gzipSync(bytes, { level: 9 });
  const none = Buffer.alloc(0);
  return `{${literal(Buffer.from(path))},\n${literal(bytes)},\n` +
    `${literal(packed.length < bytes.length ? packed : none)}},\n`;
});
if (pages.length === 0) {
  throw new Error(`there is no file in ${folder}`);
}
writeFileSync(output, `// Made by embed.mjs.
#include "api/console/embedded_pages.h"

namespace audiogen::api {
namespace {
constexpr EmbeddedPage kPages[] = {
${pages.join('')}};
}  // namespace
const std::span<const EmbeddedPage> embedded_pages = kPages;
}  // namespace audiogen::api
`);
