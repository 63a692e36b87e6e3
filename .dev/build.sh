# shellcheck shell=bash
# Building.

limits=/sys/fs/cgroup  # What a container may have of its machine.

# available_memory: in KiB; of the machine, or what the container may have at all.
available_memory() {
  local memory file limit
  memory=$(sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo)
  for file in "$limits"/memory.max "$limits"/memory/memory.limit_in_bytes; do  # Of cgroups 2 and 1.
    { read -r limit <"$file"; } 2>/dev/null && [[ $limit != max ]] || continue
    ((limit / 1024 >= memory)) || memory=$((limit / 1024))
  done
  echo "$memory"
}

# As many compilers as there are cores, but each has 1.2 GB.
build_jobs() {
  local memory cores quota period _
  memory=$(available_memory)
  cores=$(nproc)
  # Of cgroups 2 and 1, of which one says "max" and the other -1 where there is no limit.
  read -r quota period _ <<<"$(cat "$limits"/{cpu.max,cpu/cpu.cfs_{quota,period}_us} 2>/dev/null | tr '\n' ' ')"
  if [[ $quota =~ ^[0-9]+$ ]]; then
    quota=$(((quota + period - 1) / period))
    ((quota >= cores)) || cores=$quota
  fi
  local jobs=$((memory / 1200000))
  echo $((jobs < 1 ? 1 : jobs < cores ? jobs : cores))
}

# build PRESET FOLDER TARGET…: a preset of CMakePresets.json in .local/FOLDER.
build() {
  local preset=$1 folder=$state/$2 log=$state/logs/$2.log
  shift 2
  # Another checkout of the same sources may use what this one compiled.
  export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
  step "Building ($preset)"
  [[ -t 2 ]] || say "$step_name …"
  if ! grep -qsFx "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$folder/CMakeCache.txt"; then
    rm -rf "$folder"  # None yet, or a copy from elsewhere, which CMake refuses.
  fi
  if [[ ! $folder/build.ninja -nt $root/CMakePresets.json ]]; then
    (cd "$root" && logged "$log" cmake --preset "$preset")
  fi
  logged "$log" ninja -C "$folder" -j "$(build_jobs)" "$@"
  step_done
}
