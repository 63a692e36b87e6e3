# shellcheck shell=bash
# Building.

# available_memory: of the machine, in KiB.
available_memory() { sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo; }

# As many compilers as there are cores, but each has 1.2 GB.
build_jobs() {
  local memory cores
  memory=$(available_memory)
  cores=$(nproc)
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
