# shellcheck shell=bash
# The commands that test and measure, over instances of their own.

# apart BIN: what is started from here on is apart from the service of whoever calls. It has none of his settings, which
# would lead it to his database and to providers that he pays; and files enough for thousands of connections.
apart() {
  local name names
  names=$(program_settings "$1"/audio-{api,worker}) || exit 1
  for name in WORKERS $names; do
    name=${name%_FILE}
    unset "$name" "${name}_FILE"
  done
  allow_files
}

# private_services FOLDER NAME PREFERRED_PORT: MariaDB and RabbitMQ of this run alone, in
# .local/FOLDER. They end with this script, however it ends.
private_services() {
  private_folder=$state/$1
  local mariadb=$private_folder/mariadb rabbitmq=$private_folder/rabbitmq
  trap remove_private_services EXIT
  remove_private_services  # What a killed run left.
  [[ $1 == bench ]] || keep_in_memory "$mariadb"
  spawn_prefix=(setpriv --pdeathsig KILL)
  step "Starting MariaDB and RabbitMQ in .local/$1"
  with_ports "$2_MARIADB_PORT" "$3" 1 "$mariadb/mariadbd.pid" private_mariadb "$mariadb" ||
    die 'MariaDB does not start'
  TEST_DATABASE_URL=$(mariadb_url "$mariadb" "$port" owner)
  unset TEST_MYSQL_CLIENTS
  if [[ $(database_kind "$mariadb") == mysql ]]; then
    export TEST_MYSQL_CLIENTS=$private_folder/clients
    mysql_clients "$TEST_MYSQL_CLIENTS"
  fi
  with_ports "$2_AMQP_PORT" $(($3 + 366)) 3 "$rabbitmq/rabbitmq.pid" private_rabbitmq "$rabbitmq" ||
    die 'RabbitMQ does not start'
  TEST_AMQP_URL=$(rabbitmq_url "$rabbitmq" "$port")
  # A test of the whole service takes one of these for itself (tests/CMakeLists.txt).
  logged "$state/logs/$1-hosts.log" rabbitmq_hosts "$rabbitmq" "$port" 1 2 3 4
  cat >"$private_folder/resources.json" <<'END'
{"version": {"major": 1, "minor": 0}, "local": [{"broker": [{"id": "1"}, {"id": "2"}, {"id": "3"}, {"id": "4"}]}]}
END
  TEST_STACK_DIR=$private_folder/stack
  mkdir -p "$TEST_STACK_DIR"
  export TEST_DATABASE_URL TEST_AMQP_URL TEST_STACK_DIR
  step_done ready
}

# keep_in_memory FOLDER: makes it, in memory where that can be had. A database for one test, of which there are a
# thousand, is made four times as fast when no disk is waited for; and what tests kill are processes, whose files outlive
# them there, too.
keep_in_memory() {
  mkdir -p "$1"
  [[ $EUID == 0 && $(available_memory) -gt 8000000 ]] || return 0
  mount -t tmpfs -o mode=700,nosuid,nodev,size=4g audiogen-test "$1" 2>/dev/null || true
}

# leave_memory FOLDER: what keep_in_memory() kept there is gone, whoever still has a file of it open.
leave_memory() { ! mountpoint -q "$1" || umount --lazy "$1"; }

remove_private_services() {
  end_ticker
  kill_daemon "$private_folder/mariadb/mariadbd.pid"
  kill_daemon "$private_folder/rabbitmq/rabbitmq.pid"
  kill_strays "$private_folder/"
  leave_memory "$private_folder/mariadb"
  rm -rf "$private_folder"
}

# run_ctest FOLDER ARGUMENTS…: four at a time, which leaves of two cores 3 % idle.
run_ctest() {
  local folder=$state/$1
  shift
  UBSAN_OPTIONS=print_stacktrace=1 \
    TSAN_OPTIONS=suppressions=$root/tests/support/tsan.supp:second_deadlock_stack=1 \
    unrandomized ctest --test-dir "$folder" --output-on-failure --no-tests=error -j 4 \
    --resource-spec-file "$private_folder/resources.json" "$@"
}

command_test() {
  local selection=() all=0
  case ${1:-}:$# in
    :0) ;;
    --all:1) all=1 && export DEV_TEST_ALL=1 ;;
    -R:2) selection=(-R "$2") ;;
    *) usage_error test ;;
  esac
  exec </dev/null
  local node
  node=$(missing_node_packages) || exit 1
  # shellcheck disable=SC2086 # None, or several.
  need_packages "${build_packages[@]}" "${runtime_packages[@]}" "${database_packages[@]}" \
    "${broker_packages[@]}" "${test_packages[@]}" "${browser_packages[@]}" $node
  make_state
  exec {test_lock_fd}>"$state/logs/test.lock"
  flock -n "$test_lock_fd" || die 'another ./dev test is running here'
  build dev build-test
  local with_tsan=0
  if ((${#selection[@]} == 0)) && [[ ${DEV_TEST_TSAN:-1} != 0 ]]; then
    with_tsan=1
    build tsan build-tsan tsan_tests
  fi
  apart "$state/build-test/bin"
  private_services test TEST 28306
  if ((with_tsan)); then
    say 'Tests under ThreadSanitizer'
    # Only what the target tsan_tests built is there to run.
    run_ctest build-tsan -E '_NOT_BUILT$' -LE 'dev|lint|console|deploy|fuzz|bench'
  fi
  run_ctest build-test "${selection[@]}"
  if ((all)); then
    test_others
    test_package
  fi
}

# What depends on database and broker, on the others that there are.
test_others() {
  is_root || {
    say 'MySQL and RabbitMQ 4 are not tested: only root may run them, in another root folder'
    return
  }
  say 'The same on MySQL and RabbitMQ 4'
  export DATABASE=mysql BROKER=4
  private_services test TEST 28306
  run_ctest build-test -L '^(store|queue|e2e|fault)$'
  unset DATABASE BROKER
}

# The Debian package, in a fresh Debian of its own.
test_package() {
  is_root || {
    say 'The Debian package is not tested: only root may install it in another root folder'
    return
  }
  say 'The Debian package'
  need_packages "${package_packages[@]}"
  build release build
  mkdir -p "$private_folder"
  "$root/tests/deploy/package.sh" "$state/build" "$private_folder/package"
}

command_bench() {
  exec </dev/null
  need_packages "${build_packages[@]}" "${runtime_packages[@]}" "${database_packages[@]}" \
    "${broker_packages[@]}" "${test_packages[@]}"
  make_state
  exec {bench_lock_fd}>"$state/logs/bench.lock"
  flock -n "$bench_lock_fd" || die 'another ./dev bench is running here'
  build bench build-bench bench
  apart "$state/build-bench/bin"
  private_services bench BENCH 29306
  "$state/build-bench/bin/bench-service" \
    --max-rows "${BENCH_MAX_ROWS:-1000000}" --backlog "${BENCH_BACKLOG:-1000000}" \
    --results "$root/tests/bench/RESULTS.md" "$@"
}

# over_own_servers PROGRAM ARGUMENTS…: one of the tests' programs that makes its servers, kills them and makes
# them again by itself; all that it leaves ends with this script.
over_own_servers() {
  local program=$1 node
  shift
  exec </dev/null
  node=$(missing_node_packages) || exit 1  # The preset has the console, whose pages are built with it.
  # shellcheck disable=SC2086 # None, or several.
  need_packages "${build_packages[@]}" "${runtime_packages[@]}" "${database_packages[@]}" \
    "${broker_packages[@]}" "${test_packages[@]}" $node
  make_state
  exec {own_lock_fd}>"$state/logs/$program.lock"
  flock -n "$own_lock_fd" || die "another ./dev $program is running here"
  build dev build-test "$program"
  apart "$state/build-test/bin"
  private_folder=$state/$program
  trap remove_private_services EXIT
  remove_private_services
  mkdir -p "$private_folder/stack"
  TEST_STACK_DIR=$private_folder/stack UBSAN_OPTIONS=print_stacktrace=1 \
    unrandomized "$state/build-test/bin/$program" "$@"
}

command_soak() { over_own_servers soak "$@"; }

command_clusters() {
  (($# <= 1)) || usage_error clusters
  local results=()
  ((EUID == 0)) || die 'nodes are network namespaces: be root'
  (($# == 1)) || results=(--results "$root/tests/fault/RESULTS.md")
  over_own_servers clusters "${results[@]}" "$@"
}

command_simulate() {
  need_packages "${build_packages[@]}" "${test_packages[@]}"
  make_state
  build bench build-bench simulate
  exec "$state/build-bench/bin/simulate" "$@"
}

# One deliberate break after the other, in a copy of the sources (tests/mutation).
command_mutate() {
  local tree=$state/mutants file
  exec </dev/null
  make_state
  exec {mutate_lock_fd}>"$state/logs/mutate.lock"
  flock -n "$mutate_lock_fd" || die 'another ./dev mutate is running here'
  need_packages "${build_packages[@]}" "${runtime_packages[@]}" "${database_packages[@]}" \
    "${broker_packages[@]}" "${test_packages[@]}"
  # What differs, and as of now: by its own time a source may be older than an object of its mutant.
  mkdir -p "$tree"
  (cd "$root" && git ls-files -z -co --exclude-standard) >"$state/logs/mutants.files"
  while IFS= read -rd '' file; do
    if [[ -f $root/$file ]] && ! cmp -s "$root/$file" "$tree/$file"; then
      mkdir -p "$(dirname "$tree/$file")"
      cp "$root/$file" "$tree/$file"
    fi
  done <"$state/logs/mutants.files"
  export CCACHE_BASEDIR=$tree CCACHE_NOHASHDIR=1
  step 'Building the copy'
  (cd "$tree" && logged "$state/logs/mutants.log" cmake --preset dev -DAUDIOGEN_CONSOLE=OFF)
  logged "$state/logs/mutants.log" ninja -C "$tree/.local/build-test" -j "$(build_jobs)"
  step_done
  apart "$tree/.local/build-test/bin"
  private_services mutation TEST 28306
  unrandomized env "RESOURCES=$private_folder/resources.json" \
    perl "$root/tests/mutation/mutate.pl" "$root/tests/mutation/mutants" "$tree" run "$@"
}

# instance_folder DIR PORT: the folder's real path, made when missing.
instance_folder() {
  [[ $# == 2 && $2 =~ ^[0-9]+$ ]] || die 'usage: start|stop|kill DIR PORT'
  mkdir -p "$1" && cd "$1" && pwd -P
}

command__mariadb() {
  local action=${1:-} dir
  dir=$(instance_folder "${@:2:2}")
  case $action in
    start)
      mariadb_start "$dir" "$3" || die 'MariaDB does not start'
      mariadb_url "$dir" "$3" owner && echo
      ;;
    stop) stop "$dir/mariadbd.pid" 60 ;;
    kill) kill_daemon "$dir/mariadbd.pid" ;;
    *) die 'usage: _mariadb start|stop|kill DIR PORT' ;;
  esac
}

command__rabbitmq() {
  local action=${1:-} dir
  dir=$(instance_folder "${@:2:2}")
  case $action in
    start)
      rabbitmq_start "$dir" "$3" || die 'RabbitMQ does not start'
      rabbitmq_url "$dir" "$3" && echo
      ;;
    stop) rabbitmq_stop "$dir" ;;
    kill) kill_daemon "$dir/rabbitmq.pid" ;;
    control) rabbitmq_control "$dir" "${@:3}" ;;
    *) die 'usage: _rabbitmq start|stop|kill DIR PORT, or control DIR PORT ARGUMENTS…' ;;
  esac
}
