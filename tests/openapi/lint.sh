#!/usr/bin/env bash
# Linters from npm over the published description, so that tools can import it.
#   lint.sh install FOLDER             into FOLDER/node_modules, by the lock file, unless it is there
#   lint.sh redocly|spectral FOLDER    fails if that linter has anything to say
#   lint.sh proof FOLDER               each of them can fail
# Only `install` talks to anybody: to the registry that npm is set to.
set -euo pipefail
export LC_ALL=C.UTF-8
# Else it reports every run to its makers and asks for newer releases of itself.
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true

here=$(cd "$(dirname "$0")" && pwd)
published=$here/../../schema/openapi.json
files=(package.json package-lock.json .npmrc)

install() {
  local stamp ci
  stamp=$(cd "$here" && sha256sum "${files[@]}" && node --version)
  [[ $(cat "$folder/installed" 2>/dev/null) != "$stamp" ]] || return 0
  rm -rf "$folder"
  mkdir -p "$folder"
  (cd "$here" && cp "${files[@]}" "$folder")
  # Its cache and logs stay out of the user's home, and the cache is as large as what it installs.
  # npm asks again for an answer that does not come, not for one that breaks off.
  ci=(npm ci --no-progress --cache "$folder/cache")
  (cd "$folder" && { "${ci[@]}" || "${ci[@]}"; })
  rm -rf "$folder/cache"
  echo "$stamp" >"$folder/installed"
}

redocly() { "$folder/node_modules/.bin/redocly" lint --config "$here/redocly.yaml" "$1"; }

spectral() {
  "$folder/node_modules/.bin/spectral" lint --ruleset "$here/spectral.yaml" --fail-severity hint "$1"
}

# refuses LINTER RULE FILTER: names RULE when the jq FILTER has broken the document.
refuses() {
  local output
  jq "$3" "$published" >"$broken"
  if output=$("$1" "$broken" 2>&1); then
    echo "$1 accepts $3"
    return 1
  elif [[ $output != *"$2"* ]]; then
    printf '%s refuses %s for another reason:\n%s\n' "$1" "$3" "$output"
    return 1
  fi
}

proof() {
  local failures=0
  broken=$(mktemp --suffix .json)
  trap 'rm -f "$broken"' EXIT
  refuses redocly info-license 'del(.info.license)' || failures=1
  refuses redocly no-required-schema-properties-undefined \
    '.components.schemas.Output.required += ["size"]' || failures=1
  refuses spectral oas3-server-variables \
    '.servers = [{url: "{base}", variables: {base: {default: "/api/v1"}}}]' || failures=1
  refuses spectral oas3-valid-media-example \
    '.components.responses.InvalidApiKey.content[].examples[].value.error.code = "none"' || failures=1
  return "$failures"
}

usage() {
  sed -n '3,6s/^# *//p' "$0" >&2
  exit 2
}

(($# == 2)) || usage
mkdir -p "$2"
folder=$(cd "$2" && pwd)
case $1 in
  install | proof) "$1" ;;
  redocly | spectral) "$1" "$published" ;;
  *) usage ;;
esac
