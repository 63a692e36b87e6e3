#!/usr/bin/env bash
# Functions of ./dev, against the programs in the folder given.
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154,SC2317 # Functions called through others, settings of subshells.
set -euo pipefail
# shellcheck source=/dev/null
source "$(dirname "$0")/../../dev"
binaries=$1
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
mkdir -p "$state/run"

failed=0
expect() {  # expect WHAT COMMAND…
  "${@:2}" || { echo "not so: $1"; failed=1; }
}
differ() { [[ $1 != "$2" ]]; }
same() { [[ $1 == "$2" ]]; }

# Each setting a program knows makes it start again, given directly or as a file; others do not.
for program in audio-api audio-worker; do
  names=$("$binaries/$program" --help | grep -oE '^  [A-Z][A-Z0-9_]+$')
  expect "$program has settings" test "$(wc -l <<<"$names")" -gt 10
  plain=$(program_stamp "$binaries/$program")
  for name in $names; do
    expect "$name of $program restarts it" \
      differ "$plain" "$(export "$name=/dev/null-changed" && program_stamp "$binaries/$program")"
  done
  expect "a variable of others restarts nothing" \
    same "$plain" "$(SOMETHING_ELSE=1 program_stamp "$binaries/$program")"
  echo one >"$state/url"
  first=$(DATABASE_URL_FILE=$state/url program_stamp "$binaries/$program")
  echo two >"$state/url"
  expect "what a NAME_FILE holds restarts $program" \
    differ "$first" "$(DATABASE_URL_FILE=$state/url program_stamp "$binaries/$program")"
done
expect 'CDN_SIGNING_KEY restarts the API' differ \
  "$(CDN_SIGNING_KEY=0123456789abcdef program_stamp "$binaries/audio-api")" \
  "$(CDN_SIGNING_KEY=fedcba9876543210 program_stamp "$binaries/audio-api")"

# Two commands at once keep what each remembers.
remember FIRST 0
for name in FIRST SECOND; do
  (for i in {1..200}; do remember "$name" "$i"; done) &
done
wait
expect 'two commands remember at once' same "$(recall FIRST) $(recall SECOND)" '200 200'

# So does each variable that the provider chain names, directly or as a file, however it is laid out.
cat >"$state/providers.json" <<'EOF'
{"providers": [{"name": "p", "kind": "openai", "api_key_env": "ONE_KEY",
  "headers": {"X-Org": {"env": "TWO_HEADER"}, "X-Team": { "env" :
    "THREE_HEADER" }, "X-Plain": "FOUR_TEXT"}}]}
EOF
(
  export PROVIDERS_FILE=$state/providers.json
  plain=$(program_stamp "$binaries/audio-worker")
  echo one >"$state/value"
  for name in ONE_KEY TWO_HEADER THREE_HEADER; do
    expect "$name of the providers file restarts a worker" \
      differ "$plain" "$(export "$name=x" && program_stamp "$binaries/audio-worker")"
    expect "${name}_FILE of the providers file restarts a worker" \
      differ "$plain" "$(export "${name}_FILE=$state/value" && program_stamp "$binaries/audio-worker")"
  done
  expect "what is no variable's name restarts nothing" \
    same "$plain" "$(FOUR_TEXT=x program_stamp "$binaries/audio-worker")"
  exit "$failed"
) || failed=1

# Programs start in another folder than the caller's: every file he names has its whole path.
mkdir -p "$state/build"
ln -s "$binaries" "$state/build/bin"
(
  cd "$state"
  export DATABASE_URL_FILE=url AMQP_URL_FILE=./url BLOB_URL_FILE=url PUBLIC_URL_FILE=url
  export PROVIDERS_FILE=url
  for name in {BLOB,CDN}_SIGNING_KEY{,_OLD} AWS_SECRET_ACCESS_KEY; do
    export "${name}_FILE=../${state##*/}/url"
  done
  mkdir pages
  export CONSOLE_DIR=pages
  stack_environment api
  expect 'CONSOLE_DIR has its whole path' same "$CONSOLE_DIR" "$state/pages"
  expect 'previews are kept with the stack' same "$VOICE_PREVIEWS_DIR" "$state/previews"
  for name in {DATABASE_URL,AMQP_URL,BLOB_URL,PUBLIC_URL,PROVIDERS,AWS_SECRET_ACCESS_KEY}_FILE \
    {BLOB,CDN}_SIGNING_KEY{,_OLD}_FILE; do
    expect "$name has its whole path" same "${!name}" "$state/url"
  done
  exit "$failed"
) || failed=1

# The address of the API is the one it was started with, whatever is set now.
printf '%s\n' 0.0.0.0:9000 127.0.0.1:9001 >"$state/run/api.addresses"
(
  export LISTEN=127.0.0.1:1 OPS_LISTEN=127.0.0.1:2
  describe api
  expect 'status shows where the API listens' same "$address" 0.0.0.0:9000
  expect 'and asks it there' same "${ready_command[*]}" 'answers_ready 127.0.0.1:9001'
  exit "$failed"
) || failed=1

# What operators make fits the API that runs: links lead to its address, keys have its brand.
mkdir -p "$state/asked"/{run,build/bin}
(
  ln -s "$binaries/audio-worker" "$state/asked/build/bin/audio-worker"
  printf '#!/bin/sh\n[ "$1" = admin ] || exec "%s/audio-api" "$@"\necho "$PUBLIC_URL ${BRAND-none}"\n' "$binaries" \
    >"$state/asked/build/bin/audio-api"
  chmod 755 "$state/asked/build/bin/audio-api"
  state=$state/asked
  unset LISTEN PUBLIC_URL BRAND
  export DATABASE_URL=x AMQP_URL=x BLOB_URL=x
  start_program() { :; }
  LISTEN=0.0.0.0:9000 BRAND=acme start_api
  expect 'admin has the address and the brand of up' same "$(admin user show)" 'http://127.0.0.1:9000 acme'
  expect 'unless others are given' same "$(PUBLIC_URL=https://a.example BRAND=other admin user show)" 'https://a.example other'
  echo https://b.example >"$state/url"
  expect 'also in a file' same "$(BRAND_FILE=$state/url admin user show)" 'http://127.0.0.1:9000 none'
  PUBLIC_URL_FILE=$state/url start_api
  expect 'up, too, may have had it in a file' same "$(admin user show)" 'https://b.example none'
  exit "$failed"
) || failed=1

# Debian's Node is installed only where there is none; one that is too old is said, not hidden.
node_of() (  # node_of VERSION: with a node of that version first in PATH
  printf '#!/bin/sh\necho %s\n' "$1" >"$state/bin/node"
  PATH=$state/bin:$PATH
  missing_node_packages 2>&1
)
mkdir "$state/bin"
printf '#!/bin/sh\n' >"$state/bin/npm"
chmod 755 "$state/bin/npm" && touch "$state/bin/node" && chmod 755 "$state/bin/node"
expect 'a new node is used' same "$(node_of v22.1.0)" ''
expect 'the oldest that will do is used' same "$(node_of v18.0.0)" ''
expect 'an old node is refused' differ "$(node_of v16.20.2)" ''
expect 'and fails' eval '! node_of v16.20.2 >/dev/null'
expect 'without a node it is installed' same "$(PATH=$state missing_node_packages)" $'nodejs\nnpm'
rm "$state/bin/npm"
expect 'and so it is without npm' \
  same "$(PATH=$state/bin missing_node_packages)" $'nodejs\nnpm'

# A link to the console is made where there is one, and for no database but ours. Whoever follows it has the credits for a
# generation.
(
  api_listen() { echo 127.0.0.1:1; }
  console=0 credits=150
  local_curl() { return "$console"; }
  admin() {
    case "$*" in
      'user show '*)
        [[ -e $state/demo-user ]] || return 1
        echo "{\"available_credits\":$credits}"
        ;;
      'user create --email demo@example.com --plan paid --json') touch "$state/demo-user" ;;
      'credits grant --user demo@example.com --credits 1000 '*) echo "$*" >>"$state/granted" ;;
      'user login-link --user demo@example.com --json') echo '{"url":"http://x/console/#login=T"}' ;;
      *) return 1 ;;
    esac
  }
  expect 'a link is printed' same "$(sign_in_link)" 'http://x/console/#login=T'
  expect 'for a user who is made first' test -e "$state/demo-user"
  expect 'one who can pay for a generation is given nothing' test ! -e "$state/granted"
  for credits in 0 149.999; do
    rm -f "$state/granted"
    expect "with $credits credits, too" same "$(sign_in_link)" 'http://x/console/#login=T'
    expect "and with $credits credits he is granted more, once" same "$(wc -l 2>/dev/null <"$state/granted")" 1
  done
  expect 'not for a database of the caller' same "$(DATABASE_URL=x sign_in_link)" ''
  console=22
  expect 'nor without a console' same "$(sign_in_link)" ''
  exit "$failed"
) || failed=1

# Why an admin command has failed is said, whether or not it got as far as to say it as JSON.
(
  refusal='{"error":{"message":"--user: there is no user x"}}'
  admin() {
    printf '%s\n' "$refusal" >&2
    return 1
  }
  said() { (admin_json user show --user x) 2>&1; }
  expect 'its reason is said' same "$(said)" 'dev: --user: there is no user x'
  refusal='it cannot be run'
  expect 'and what is no JSON, too' same "$(said)" 'dev: it cannot be run'
  admin() {
    echo 'by the way' >&2
    echo '{"id":1}'
  }
  expect 'what it remarks is no part of its answer' same "$(said)" '{"id":1}'
  exit "$failed"
) || failed=1

# What there is to ask for is told without a stack, and by ./dev itself where nothing is built.
(
  helped() { (command_admin "$@") 2>&1; }
  expect 'the help of admin is that of the program' eval '[[ $(helped --help) == *"Usage: audio-api admin"*credits* ]]'
  expect 'so is that of a command' eval '[[ $(helped user create -h) == *"Usage: audio-api admin user create"* ]]'
  expect 'nothing else is done without a stack' eval '! helped user create >/dev/null'
  state=$state/nothing
  expect 'where nothing is built there is what ./dev knows' same "$(helped --help)" "$(help_of admin)"
  exit "$failed"
) || failed=1

# Whatever has the console built has Node installed before that.
(
  need_packages() {
    printf '%s\n' "$@"
    exit
  }
  missing_node_packages() { printf '%s\n' nodejs npm; }
  for command in 'over_own_servers soak' 'over_own_servers clusters' 'command_test -R x'; do
    expect "$command installs Node" same "$( ($command) | grep -cxE 'nodejs|npm')" 2
  done
  exit "$failed"
) || failed=1

# What tests has nothing of the service of whoever runs it, but for the servers that he chose; and files enough.
(
  own=$state/own
  for folder in build-test build-bench mutants/.local/build-test; do
    mkdir -p "$own/$folder/bin"
    ln -s "$binaries"/audio-{api,worker} "$own/$folder/bin/"
    for program in soak clusters bench-service; do
      printf '#!/bin/sh\necho "${DATABASE_URL-}${PROVIDERS_FILE-}${BRAND_FILE-}${WORKERS-}$DATABASE $(ulimit -Sn)"\n' \
        >"$own/$folder/bin/$program"
      chmod 755 "$own/$folder/bin/$program"
    done
  done
  state=$own
  export DATABASE_URL=x PROVIDERS_FILE=x BRAND_FILE=x WORKERS=0 DATABASE=mysql DEV_TEST_TSAN=0
  need_packages() { :; }
  missing_node_packages() { :; }
  build() { :; }
  logged() { :; }
  git() { :; }
  private_services() { private_folder=$state/$1; }
  run_ctest() { "$state/build-test/bin/soak"; }
  env() { "$state/build-test/bin/soak"; }  # What makes a mutant's tests run.
  setarch() { [[ $2 != true ]] && "${@:2}"; }
  ulimit -Sn 256
  files=$(allow_files && ulimit -Sn)
  for command in command_test command_bench command_soak 'over_own_servers clusters' command_mutate; do
    expect "${command#command_} is apart" same "$( ($command 2>/dev/null))" "mysql $files"
  done
  expect 'there are more files than before' test "$files" -gt 256
  exit "$failed"
) || failed=1

# Programs are asked for their settings with addresses that are not random, however this test was started; and one that
# fails is told with its status.
(
  mkdir "$state/told"
  for program in audio-api audio-worker; do
    printf '#!/bin/sh\ncat /proc/self/personality >>"%s/told/personality"\necho "  DATABASE_URL"\n' "$state" \
      >"$state/told/$program"
    chmod 755 "$state/told/$program"
  done
  if setarch --addr-no-randomize true 2>/dev/null; then
    setarch "$(uname -m)" bash -c 'source "$1/dev" && apart "$2"' _ "$root" "$state/told"
    expect 'no addresses are random' same "$(sort -u "$state/told/personality")" 00040000
  fi
  printf '#!/bin/sh\nexit 7\n' >"$state/told/audio-api"
  expect 'what fails is told' same "$( (apart "$state/told") 2>&1)" 'dev: audio-api --help has failed (7)'
  exit "$failed"
) || failed=1

# The tests on other servers are for root; nobody else's run ends with an error for it.
(
  unset DATABASE BROKER
  need_packages() { :; }
  apart() { :; }
  build() { :; }
  private_services() { echo "services ${DATABASE:-} ${BROKER:-}"; }
  run_ctest() { echo "tests${2:+ of some}"; }
  missing_node_packages() { :; }
  test_package() { echo package; }
  tested() {  # tested STATUS: by whom is_root() answers so of
    (
      root_is=$1 DEV_TEST_TSAN=0
      is_root() { return "$root_is"; }
      command_test --all
    ) 2>/dev/null
  }
  expect 'root tests on all of them' same "$(tested 0)" $'services  \ntests\nservices mysql 4\ntests of some\npackage'
  expect 'others on their own' same "$(tested 1)" $'services  \ntests\npackage'
  is_root() { return 1; }
  expect 'and are told so' same "$(test_others 2>&1)" \
    'MySQL and RabbitMQ 4 are not tested: only root may run them, in another root folder'
  exit "$failed"
) || failed=1

# What runs from a folder is what was chosen last; a start notices when that is another one.
mkdir "$state/db"
expect 'MariaDB where nothing is chosen' same "$(database_kind "$state/db")" mariadb
becomes "$state/db" mysql mariadb touch "$state/db/stopped"
expect 'a start of another kind stops what there was' test -e "$state/db/stopped"
expect 'what was chosen is kept' same "$(database_kind "$state/db")" mysql
expect 'until something else is' same "$(DATABASE=mariadb database_kind "$state/db")" mariadb
rm "$state/db/stopped"
becomes "$state/db" mysql mariadb touch "$state/db/stopped"
expect 'the same kind goes on' test ! -e "$state/db/stopped"
expect 'what is not known is refused' eval '! (DATABASE=oracle database_kind "$state/db" 2>/dev/null)'

# A container builds with what it may have of its machine.
(
  limits=$state/limits
  mkdir -p "$limits/memory"
  sed() { echo 64000000; }  # What /proc/meminfo tells.
  nproc() { echo 16; }
  expect 'without limits all cores build' same "$(build_jobs)" 16
  echo max >"$limits/memory.max"
  echo 'max 100000' >"$limits/cpu.max"
  echo 9223372036854771712 >"$limits/memory/memory.limit_in_bytes"
  expect 'nor are these any' same "$(build_jobs)" 16
  echo '250000 100000' >"$limits/cpu.max"
  expect 'two cores and a half are three' same "$(build_jobs)" 3
  rm "$limits/cpu.max"
  mkdir "$limits/cpu"
  echo 100000 >"$limits/cpu/cpu.cfs_period_us"
  echo -1 >"$limits/cpu/cpu.cfs_quota_us"
  expect 'older kernels, too, have none' same "$(build_jobs)" 16
  echo 350000 >"$limits/cpu/cpu.cfs_quota_us"
  expect 'or some' same "$(build_jobs)" 4
  echo 3000000000 >"$limits/memory.max"
  expect 'memory for two compilers' same "$(build_jobs)" 2
  echo 1000000000 >"$limits/memory/memory.limit_in_bytes"
  expect 'and for one, as older kernels tell it' same "$(build_jobs)" 1
  exit "$failed"
) || failed=1

# Where the home folder cannot be written to, the compiler cache has another place, and what is there is read.
(
  unset CCACHE_DIR
  walls=()
  ((EUID != 0)) || walls=(setpriv '--bounding-set=-dac_override,-dac_read_search')  # Root may do everything.
  home_of() { HOME=$1 "${walls[@]}" bash -c 'source "$1" && echo "$HOME ${CCACHE_DIR-}"' _ "$root/dev"; }
  mkdir "$state/home"
  expect 'a home that is there is taken' same "$(home_of "$state/home")" "$state/home "
  chmod 500 "$state/home"
  expect 'also to be read alone' same "$(home_of "$state/home")" "$state/home $root/.local/ccache"
  expect 'where the cache may have a place already' same "$(CCACHE_DIR=/x home_of "$state/home")" "$state/home /x"
  chmod 600 "$state/home"
  expect 'one that nobody can enter is not' same "$(home_of "$state/home")" "$root/.local "
  chmod 700 "$state/home"
  expect 'nor one that is not there' same "$(home_of "$state/none")" "$root/.local "
  exit "$failed"
) || failed=1

# The daemons that packages enable are disabled again, and nothing else: neither what these need, nor what others enable
# meanwhile.
(
  policy_hook=$state/policy-rc.d unit_links=$state/units
  wants=$unit_links/multi-user.target.wants
  mkdir -p "$wants"
  touch "$wants/nginx.service" "$unit_links/mariadb.service"
  apt-get() { [[ $* == *--simulate* ]] || touch "$wants/"{epmd.socket,logrotate.timer,foreign.service,mariadb.service}; }
  systemctl() { [[ $* == "--quiet disable "* && -e $wants/$3 ]]; }
  expect 'new daemons are disabled' same "$(apt_install x)" $'Disabled: epmd.socket\nDisabled: mariadb.service'
  expect 'the hook is gone' test ! -e "$policy_hook"
  expect 'those that were there stay' same "$(apt_install x)" ''
  rm "$wants/epmd.socket"
  touch "$policy_hook"
  command() { return 1; }
  expect 'without systemd there is nothing to disable' same "$(apt_install x)" ''
  expect "a hook of the machine's own stays" test -e "$policy_hook"
  exit "$failed"
) || failed=1

# The tests' database lies in memory where there is plenty of it, and wiping takes it from there, whoever has it open.
(
  kept() { (there_is=$1; available_memory() { echo "$there_is"; }; mount() { echo "${*: -1}"; }; keep_in_memory "$state/kept"); }
  expect 'where memory is short the disk will do' same "$(kept 7999999)" ''
  expect 'the folder is made all the same' test -d "$state/kept"
  if [[ $EUID == 0 ]]; then
    expect 'where there is plenty it is in memory' same "$(kept 8000001)" "$state/kept"
    mkdir -p "$state/wiped/.local/test/mariadb"
    if mount -t tmpfs none "$state/wiped/.local/test/mariadb" 2>/dev/null; then
      exec {open_fd}>"$state/wiped/.local/test/mariadb/file"
      (state=$state/wiped/.local; lock() { :; }; command_down --wipe >/dev/null)
      expect 'what a killed run left in memory is wiped' test ! -e "$state/wiped/.local"
      expect 'and mounted nowhere' eval '! grep -q "$state/wiped" /proc/mounts'
      exec {open_fd}>&-
    fi
  fi
  exit "$failed"
) || failed=1

# A pid file names its process only in the folder it was written in.
spawn "$state/run/sleeper.pid" "$state/log" "$state/run" sleep 100
expect 'a started process is alive' alive "$state/run/sleeper.pid"
mkdir "$state/copy"
cp "$state/run/sleeper.pid" "$state/copy/sleeper.pid"
expect 'a copied pid file is nobody' gone "$state/copy/sleeper.pid"
kill_daemon "$state/run/sleeper.pid"
expect 'a killed daemon is gone' gone "$state/run/sleeper.pid"

# A daemon that takes long to be ready is waited for where it listens, and no other port is remembered for it.
(
  slow() {
    alive "$state/run/slow.pid" && return
    spawn "$state/run/slow.pid" "$state/log" "$state/run" sleep 100
    listening=$port
    return 1
  }
  port_taken() { [[ $1 == "${listening:-}" ]]; }
  expect 'a slow daemon is waited for' with_ports SLOW_PORT 20000 1 "$state/run/slow.pid" slow
  expect 'on its port' same "$port $(recall SLOW_PORT)" '20000 20000'
  kill_daemon "$state/run/slow.pid"
  exit "$failed"
) || failed=1

# So is one that was spawned a moment ago, and has no session of its own yet.
spawn_prefix=(sh -c 'exec sleep 100')
spawn "$state/run/sleeper.pid" "$state/log" "$state/run" true
spawn_prefix=()
expect 'it is alive' alive "$state/run/sleeper.pid"
kill_daemon "$state/run/sleeper.pid"
expect 'and can be killed' gone "$state/run/sleeper.pid"
exit "$failed"
