#!/usr/bin/env bash
# packages.sh BIN [DOCKERFILE]: the library packages of the image's last stage are exactly those that the programs in BIN
# are linked with. Debian's base image has the rest: the C and C++ libraries. libfmt9, which a debug build names, comes with
# libspdlog1.10.
set -euo pipefail
export LC_ALL=C.UTF-8

bin=$1
image=${2:-$(dirname "$0")/../../Dockerfile}

# The packages of the libraries that a program itself names.
packages_of() {
  local name path libraries
  libraries=$(ldd "$1")
  while read -r name; do
    [[ $name != ld-linux* ]] || continue  # The loader itself, which comes with the C library.
    path=$(awk -v name="$name" '$1 == name { print $3 }' <<<"$libraries")
    # Packages still list their files below /lib, which is /usr/lib by now.
    dpkg-query --search "$path" "/usr$path" "${path#/usr}" 2>/dev/null | sed 's/:.*//' || true
  done < <(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }')
}

release=$(sed -n 's/^FROM debian:\([0-9]*\)$/\1/p' "$image" | sort -u)
[[ $(sed -n 's/^VERSION_ID="\(.*\)"$/\1/p' /etc/os-release) == "$release" ]] || {
  echo "This is not Debian $release, which the image is made of: its packages have other names."
  exit 77  # Skipped.
}
programs=("$bin"/audio-{api,worker,decode,speech,onnx})
ls "${programs[@]}" >/dev/null
sanitizers='lib(a|ub|t)san[0-9]+'
packages() {
  local program
  for program in "${programs[@]}"; do packages_of "$program"; done
  ! packages_of "$bin/audio-worker" | grep -qxE "$sanitizers" || echo libjemalloc2
}
needed=$(packages | sort -u | grep -vxE "libc6|libfmt9|libgcc-s1|libstdc\\+\\+6|$sanitizers")
named=$(sed -n '/^FROM debian:12$/,$p' "$image" | grep -oE '\blib[a-z0-9.+-]+[a-z0-9]\b' | grep -v '^lib/' | sort -u)
diff <(echo "$needed") <(echo "$named") || {
  echo "Dockerfile: < is needed and not installed, > is installed and not needed"
  exit 1
}
