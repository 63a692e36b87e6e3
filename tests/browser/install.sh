#!/usr/bin/env bash
# install.sh FOLDER: the browser tests into FOLDER, with what they need from npm, by the lock file,
# unless that is there. Talks to nobody but the registry that npm is set to; the browser is Debian's.
set -euo pipefail
export LC_ALL=C.UTF-8

here=$(cd "$(dirname "$0")" && pwd)
files=(package.json package-lock.json .npmrc)

(($# == 1)) || { sed -n '2s/^# *//p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
stamp=$(cd "$here" && sha256sum "${files[@]}" && node --version)
if [[ $(cat "$folder/installed" 2>/dev/null) != "$stamp" ]]; then
  rm -rf "$folder"
  mkdir -p "$folder"
  (cd "$here" && cp "${files[@]}" "$folder")
  # npm asks again for an answer that does not come, not for one that breaks off.
  ci=(npm ci --no-progress --cache "$folder/cache")
  (cd "$folder" && { "${ci[@]}" || "${ci[@]}"; })
  rm -rf "$folder/cache"
  echo "$stamp" >"$folder/installed"
fi
cp "$here"/*.mjs "$folder"
