#!/usr/bin/env bash
# The console's pages without a browser.
#   check.sh install FOLDER    their sources into FOLDER, and what they are built with, by the lock file
#   check.sh types FOLDER      no complaint of the compiler; nor of the operators' page, which has types by JSDoc
#   check.sh unit FOLDER       the tests of what is pure, by Node's own runner
#   check.sh size FOLDER       all of it together is at most 130 KB when packed; the same twice
#   check.sh locks FOLDER      the lock files name no registry
# Only `install` talks to anybody: to the registry that npm is set to.
set -euo pipefail
export LC_ALL=C.UTF-8

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
web=$root/api/console/web
readonly budget=130000
files=(package.json package-lock.json .npmrc)

# The libraries only when the lock file or Node has changed, the sources always.
install() {
  local stamp ci
  stamp=$(cd "$web" && sha256sum "${files[@]}" && node --version)
  if [[ $(cat "$folder/installed" 2>/dev/null) != "$stamp" ]]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    (cd "$web" && cp "${files[@]}" "$folder")
    # npm asks again for an answer that does not come, not for one that breaks off.
    ci=(npm ci --no-progress --cache "$folder/cache")
    (cd "$folder" && { "${ci[@]}" || "${ci[@]}"; })
    rm -rf "$folder/cache"
    echo "$stamp" >"$folder/installed"
  fi
  rm -rf "$folder/src" "$folder/test"
  (cd "$web" && cp -r src test index.html build.mjs test.mjs tsconfig.json "$folder")
}

types() {
  (cd "$folder" && node_modules/.bin/tsc --noEmit)
  "$folder/node_modules/.bin/tsc" --noEmit --allowJs --checkJs --strict --noUncheckedIndexedAccess --moduleDetection force \
    --target ES2022 --module ESNext --lib ES2022,DOM,DOM.Iterable "$root/api/operators/page/page.js"
}

unit() { (cd "$folder" && OPENAPI=$root/schema/openapi.json node test.mjs); }

size() {
  local file packed=0
  (cd "$folder" && node build.mjs "$folder/out" && node build.mjs "$folder/again")
  diff -r "$folder/out" "$folder/again" || { echo 'two builds differ'; return 1; }
  while read -r file; do
    packed=$((packed + $(gzip -9 -c "$file" | wc -c)))
  done < <(find "$folder/out" -type f)
  echo "$packed bytes packed, of $budget"
  ((packed <= budget))
}

# Whoever installs chooses the registry.
locks() {
  if grep -nE '"resolved"|https?://[^"]*registry' "$web/package-lock.json" \
    "$root/tests/browser/package-lock.json"; then
    return 1
  fi
}

usage() {
  sed -n '3,7s/^# *//p' "$0" >&2
  exit 2
}

(($# == 2)) || usage
mkdir -p "$2"
folder=$(cd "$2" && pwd)
case $1 in
  install | types | unit | size | locks) "$1" ;;
  *) usage ;;
esac
