#!/usr/bin/env bash
# install.sh FOLDER: puts the runtime of audio-onnx there (libsherpa-onnx-c-api.so and libonnxruntime.so, 32 MB), as
# npm has it by the lock file, unless it is there. Talks to the registry that npm is set to, and to nobody else.
set -euo pipefail
export LC_ALL=C.UTF-8

here=$(cd "$(dirname "$0")" && pwd)
files=(package.json package-lock.json .npmrc)
libraries=(libsherpa-onnx-c-api.so libonnxruntime.so)
(($# == 1)) || {
  sed -n '2s/^# *//p' "$0" >&2
  exit 2
}
case $(uname -m) in
  x86_64) package=sherpa-onnx-linux-x64 ;;
  aarch64) package=sherpa-onnx-linux-arm64 ;;
  *)
    echo 'sherpa-onnx is not made for this machine' >&2
    exit 1
    ;;
esac
mkdir -p "$1"
folder=$(cd "$1" && pwd)
stamp=$(cd "$here" && sha256sum "${files[@]}" install.sh)
[[ $(cat "$folder/installed" 2>/dev/null) != "$stamp" || ! -e $folder/${libraries[0]} || ! -e $folder/${libraries[1]} ]] ||
  exit 0

work=$(mktemp -d "$folder/.npm-XXXXXX")
trap 'rm -rf "$work"' EXIT
(cd "$here" && cp "${files[@]}" "$work")
# Its cache and logs stay out of the user's home.
# npm asks again for an answer that does not come, not for one that breaks off.
ci=(npm ci --no-progress --cache "$work/cache")
(cd "$work" && { "${ci[@]}" || "${ci[@]}"; })
for library in "${libraries[@]}"; do
  # To npm a package for another machine is as optional as one that it could not fetch.
  install -m 644 "$work/node_modules/$package/$library" "$work/$library" || {
    echo "sherpa-onnx could not be downloaded: there is no $library" >&2
    exit 1
  }
done
# Each at once, because a helper may have the old one open.
echo "$stamp" >"$work/installed"
for name in "${libraries[@]}" installed; do
  mv "$work/$name" "$folder/$name"
done
