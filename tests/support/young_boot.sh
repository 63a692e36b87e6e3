#!/usr/bin/env bash
# Runs a test program where the machine seems to have booted a minute ago: clocks that count from then are near their
# zero, and a time point that stands for "never" is not long past. 77: this machine makes no namespace for that.
set -euo pipefail

# Seconds since the boot: one clock stands still while the machine sleeps, the other does not.
read -r awake up < <(perl -MTime::HiRes=clock_gettime,CLOCK_MONOTONIC,CLOCK_BOOTTIME \
  -e 'printf "%d %d\n", clock_gettime(CLOCK_MONOTONIC), clock_gettime(CLOCK_BOOTTIME)')
((awake > 60)) || exec "$@"  # It has.
young=(unshare --time --fork --monotonic="-$((awake - 60))" --boottime="-$((up - 60))")
if ! "${young[@]}" true 2>/dev/null; then
  young=(unshare --user --map-current-user "${young[@]:1}")
  "${young[@]}" true 2>/dev/null || exit 77
fi
exec "${young[@]}" "$@"
