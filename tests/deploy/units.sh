#!/usr/bin/env bash
# units.sh BIN: systemd understands every line of our units, their walls are as high as they were, and each of these two
# checks can fail.
set -euo pipefail
export LC_ALL=C.UTF-8 SYSTEMD_COLORS=0 SYSTEMD_PAGER=

bin=$(cd "$1" && pwd)
units=$(cd "$(dirname "$0")/../../.deploy/systemd" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# In tenths of what systemd-analyze(1) counts; 100 has no walls at all. What is left is mostly the network.
readonly most=12

# Our units, with the programs where they are now.
fresh() {
  rm -rf "$folder/units"
  cp -r "$units" "$folder/units"
  sed -i "s|^ExecStart=/usr/bin/|ExecStart=$bin/|" "$folder"/units/*.service
}

understood() {
  local said
  if ! said=$(systemd-analyze verify --man=no "$folder"/units/* 2>&1) || [[ -n $said ]]; then
    echo "$said"
    return 1
  fi
}

walled() {
  local unit
  for unit in "$folder"/units/*.service; do
    systemd-analyze security --offline=yes "--threshold=$most" "$unit" >"$folder/said" 2>&1 || {
      grep -E '✗|exposure' "$folder/said"
      return 1
    }
  done
}

# It finishes what it has within 900 s at most, and needs some seconds more to give back the rest.
waits=$(sed -n 's/^TimeoutStopSec=\([0-9]*\)s$/\1/p' "$units/audio-worker@.service")
((${waits:-0} >= 920)) || {
  echo 'a worker is killed while calls are under way'
  exit 1
}

# It loads the models of the house first, a minute each at most.
grep -qx 'TimeoutStartSec=15min' "$units/audio-worker@.service" || {
  echo 'a worker with two slow models is started again for ever'
  exit 1
}

# What these files set goes before what a unit does, and they are the same for all workers, whose ports are their names'.
! grep -q OPS_LISTEN "$units/../etc/common.env" "$units/../etc/worker.env" || {
  echo 'all workers have the same port'
  exit 1
}

# Before what is mounted over the folder is there, audio would go beneath it.
folder_of_audio=$(sed -n 's|^BLOB_URL=file://||p' "$units/../etc/common.env")
for unit in 'audio-worker@' audio-api; do
  grep -qx "RequiresMountsFor=${folder_of_audio:?}" "$units/$unit.service" || {
    echo "$unit does not wait for the folder of audio"
    exit 1
  }
done

fresh
understood
walled
sed -i 's/^TimeoutStopSec=.*/TimeoutStopsSec=1/' "$folder/units/audio-api.service"
! understood >/dev/null || {
  echo 'a setting that does not exist is not noticed'
  exit 1
}
fresh
sed -i 's/^CapabilityBoundingSet=.*//' "$folder/units/audio-worker@.service"
! walled >/dev/null || {
  echo 'a wall less is not noticed'
  exit 1
}
