#!/usr/bin/env bash
# install.sh FOLDER: puts the runtime of audio-onnx there (libsherpa-onnx-c-api.so and libonnxruntime.so, 32 MB), as
# npm has it by the lock file, unless it is there. Talks to the registry that npm is set to, and to nobody else.
set -euo pipefail
export LC_ALL=C.UTF-8

here=$(cd "$(dirname "$0")" && pwd)
files=(package.json package-lock.json .npmrc)
(($# == 1)) || {
  sed -n '2s/^# *//p' "$0" >&2
  exit 2
}
mkdir -p "$1"
folder=$(cd "$1" && pwd)
stamp=$(cd "$here" && sha256sum "${files[@]}" install.sh)
[[ $(cat "$folder/installed" 2>/dev/null) != "$stamp" ]] || exit 0

work=$folder/npm
rm -rf "$work"
mkdir "$work"
(cd "$here" && cp "${files[@]}" "$work")
# Its cache and logs stay out of the user's home.
(cd "$work" && npm ci --no-progress --cache "$work/cache")
libraries=("$work"/node_modules/sherpa-onnx-linux-*/lib{sherpa-onnx-c-api,onnxruntime}.so)
[[ -e ${libraries[0]} ]] || {
  echo 'sherpa-onnx is not made for this machine' >&2
  exit 1
}
install -m 644 "${libraries[@]}" "$folder"
rm -rf "$work"
echo "$stamp" >"$folder/installed"
