#!/usr/bin/env bash
# ./dev drill on a stack of its own, of the programs in the folder given: everything it breaks is said by the operators'
# page, and mended again.
# shellcheck disable=SC2034,SC2154 # Settings of the sourced script.
set -euo pipefail
# shellcheck source=/dev/null
source "$(dirname "$0")/../../dev"
binaries=$1
apart "$binaries"
# Where the run ends what is left.
state=$(mktemp -d -p "${TEST_STACK_DIR:-$(cd "$binaries/.." && pwd -P)}")
own_database=1 own_broker=1 expected=()
tear_down() {
  stop_all || true
  kill_strays "$state/"
  rm -rf "$state"
}
trap tear_down EXIT
make_state
mkdir -p "$state/build/bin"
cp "$binaries"/audio-* "$state/build/bin/"  # For one of them is taken away.
start_services
start_programs
(drill "${drills[@]}")  # It mends what it broke at its own exit.
