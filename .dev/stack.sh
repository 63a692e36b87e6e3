# shellcheck shell=bash
# The stack: a database, a broker, the API and workers, each started only when it is missing or has changed.

# Whether the caller chose a setting, directly or as NAME_FILE.
given() {
  local file=${1}_FILE
  [[ -n ${!1:-} || -n ${!file:-} ]]
}

# What the caller chose, directly or as NAME_FILE; nothing where he did not.
chosen() {
  local file=${1}_FILE
  if [[ -n ${!1:-} ]]; then
    printf '%s\n' "${!1}"
  elif [[ -n ${!file:-} ]]; then
    cat -- "${!file}"
  fi
}

# host:port as this machine reaches it.
reachable() {
  case $1 in
    0.0.0.0:* | '[::]':*) echo "127.0.0.1:${1##*:}" ;;
    *) echo "$1" ;;
  esac
}

api_listen() { echo "${LISTEN:-127.0.0.1:$(recall API_PORT)}"; }
api_ops() { echo "${OPS_LISTEN:-127.0.0.1:$(($(recall API_PORT) + 1))}"; }
base_url() { echo "${PUBLIC_URL:-http://$(reachable "$(api_listen)")}"; }

# stack_environment USER: exports the settings of this stack that the caller did not choose, the
# database by that user of it, and makes the names of files that he did choose independent of the
# folder.
stack_environment() {
  local name names database_user=$1
  names=$(program_settings "$state"/build/bin/audio-{api,worker}) || exit 1
  for name in $names; do
    name=${name%_FILE}_FILE
    [[ -z ${!name:-} ]] || export "$name=$(realpath -- "${!name}")"
  done
  given DATABASE_URL || {
    DATABASE_URL=$(mariadb_url "$state/mariadb" "$(recall MARIADB_PORT)" "$database_user")
    export DATABASE_URL
  }
  given AMQP_URL || {
    AMQP_URL=$(rabbitmq_url "$state/rabbitmq" "$(recall AMQP_PORT)")
    export AMQP_URL
  }
  given BLOB_URL || {
    export BLOB_URL=file://$state/blobs
    given BLOB_SIGNING_KEY || {
      BLOB_SIGNING_KEY=$(secret_in "$state/blob-signing.key")
      export BLOB_SIGNING_KEY
    }
  }
  given PUBLIC_URL || {
    PUBLIC_URL=$(base_url)
    export PUBLIC_URL
  }
  [[ -z ${CONSOLE_DIR:-} ]] || {
    CONSOLE_DIR=$(realpath -- "$CONSOLE_DIR")
    export CONSOLE_DIR
  }
  VOICE_PREVIEWS_DIR=$(realpath --canonicalize-missing -- "${VOICE_PREVIEWS_DIR:-$state/previews}")
  export VOICE_PREVIEWS_DIR
}

local_curl() { curl -q --noproxy '*' --silent --show-error "$@"; }

answers_ready() {
  local_curl --fail --max-time 3 --output /dev/null "http://$1/readyz" 2>/dev/null
}

# program_settings PROGRAM…: the names of their settings, as the programs themselves say.
program_settings() {
  local program names
  for program; do
    names=$(unrandomized "$program" --help) || die "${program##*/} --help has failed ($?)"
    names=$(sed -n 's/^  \([A-Z][A-Z0-9_]*\)$/\1/p' <<<"$names")
    [[ $names == *DATABASE_URL* ]] || die "${program##*/} --help names no settings"
    printf '%s\n' "$names"
  done
}

# A digest of a program's file and settings: when it changes, the program has to be started again.
# The provider chain names further ones: with keys, and with headers' values.
program_stamp() {
  local name file providers=${PROVIDERS_FILE:-/dev/null} settings
  settings=$(program_settings "$1") || return 1
  settings+=$'\n'$(tr '\n' ' ' 2>/dev/null <"$providers" |
    grep -oE '"(api_key_env|env)"[[:space:]]*:[[:space:]]*"[A-Za-z0-9_]+"' |
    sed -E 's/.*"([^"]+)"$/\1/' || true)
  {
    stat -c '%n %i %s %y' "$1"
    for name in $settings; do
      file=${name}_FILE
      printf '%s=%s\n' "$name" "${!name-}"
      [[ $name != *_FILE ]] || file=$name
      [[ -z ${!file:-} ]] || cat "${!file}" 2>/dev/null || true
    done
  } | sha256sum
}

# start_program NAME OPS_ADDRESS BINARY ARGUMENTS…: unless it runs as it should; waits until ready.
start_program() {
  local name=$1 ops=$2 program=$state/build/bin/$3 stamp
  local pid_file=$state/run/$name.pid stamp_file=$state/run/$name.stamp log=$state/logs/$name.log
  shift 3
  stamp=$(program_stamp "$program") || return 1
  if ! alive "$pid_file" || [[ $(cat "$stamp_file" 2>/dev/null) != "$stamp" ]]; then
    stop "$pid_file" 930  # A worker finishes its work first.
    spawn "$pid_file" "$log" "$state/run" "$program" "$@"
    echo "$stamp" >"$stamp_file"
  fi
  wait_ready "$pid_file" 60 answers_ready "$ops" && return 0
  if alive "$pid_file"; then
    say "$name does not become ready: $(local_curl --max-time 3 "http://$ops/readyz" 2>&1 || true)"
  fi
  show_log "$log"
  return 1
}

start_api() (
  local listen ops
  listen=$(api_listen) ops=$(api_ops)
  stack_environment api
  # shellcheck disable=SC2030,SC2031 # Meant for this subshell only.
  export LISTEN=$listen OPS_LISTEN=$ops
  # For whoever asks later, with other settings around him.
  printf '%s\n' "$listen" "$ops" "$(chosen PUBLIC_URL)" "$(chosen BRAND)" >"$state/run/api.addresses"
  start_program api "$(reachable "$ops")" audio-api serve
)

# Exports what the API was started with and the caller did not choose: by another PUBLIC_URL links lead elsewhere, and it
# refuses keys of another BRAND.
as_started() {
  local started=()
  [[ ! -s $state/run/api.addresses ]] || mapfile -t started <"$state/run/api.addresses"
  given PUBLIC_URL || [[ -z ${started[2]:-} ]] || export PUBLIC_URL=${started[2]}
  given BRAND || [[ -z ${started[3]:-} ]] || export BRAND=${started[3]}
}

start_worker() (
  stack_environment worker
  unset LISTEN
  # shellcheck disable=SC2030,SC2031 # Meant for this subshell only.
  export OPS_LISTEN=127.0.0.1:$port
  start_program "$1" "127.0.0.1:$port" audio-worker
)

# As the database's owner; the running programs have fewer rights.
migrate() (
  stack_environment owner
  ((!own_database)) || mariadb_users "$state/mariadb" | mariadb_client "$state/mariadb"
  "$state/build/bin/audio-api" migrate || exit
  ((!own_database)) || grant
)

grant() {
  local user options=()
  for user in "${database_users[@]}"; do
    options+=("--$user" "$user@localhost" "$user@127.0.0.1")
  done
  "$state/build/bin/audio-api" grants "${options[@]}"
}

# On `port`, for with_ports.
private_mariadb() { mkdir -p "$1" && mariadb_start "$1" "$port"; }
private_rabbitmq() { mkdir -p "$1" && rabbitmq_start "$1" "$port"; }

start_services() {
  if ((own_database)); then
    step "Starting $(database_name "$state/mariadb")"
    with_ports MARIADB_PORT 27306 1 "$state/mariadb/mariadbd.pid" \
      private_mariadb "$state/mariadb" || die "$(database_name "$state/mariadb") does not start"
    step_done "ready on port $port"
    expected+=(mariadb)
  fi
  if ((own_broker)); then
    step 'Starting RabbitMQ'
    # The epmd of a node that was killed holds a port of the three.
    alive "$state/rabbitmq/rabbitmq.pid" || stop "$state/rabbitmq/epmd.pid" 5
    with_ports AMQP_PORT 27672 3 "$state/rabbitmq/rabbitmq.pid" \
      private_rabbitmq "$state/rabbitmq" || die 'RabbitMQ does not start'
    step_done "ready on port $port"
    expected+=(rabbitmq)
  fi
  step 'Migrating the database'
  logged "$state/logs/migrate.log" migrate
  step_done
}

start_programs() {
  local worker file number workers=${WORKERS:-2}
  step 'Starting the API'
  with_ports API_PORT 8080 2 "$state/run/api.pid" start_api || die 'the API does not start'
  step_done "ready on $(base_url)"
  expected+=(api)
  for ((number = 1; number <= workers; number++)); do
    worker=worker-$number
    step "Starting $worker"
    with_ports "WORKER_${number}_PORT" $((8081 + number)) 1 "$state/run/$worker.pid" \
      start_worker "$worker" || die "$worker does not start"
    step_done 'ready'
    expected+=("$worker")
  done
  for file in "$state"/run/worker-*.pid; do  # More than are wanted now.
    number=${file##*/worker-}
    ((${number%.pid} <= workers)) 2>/dev/null || stop "$file" 930
  done
}

up() {
  [[ ${WORKERS:-2} =~ ^[0-9]{1,2}$ ]] || die 'WORKERS must be a whole number from 0 to 99'
  local own_database=1 own_broker=1 expected=() node
  node=$(missing_node_packages) || exit 1  # The console's pages are built with it.
  # shellcheck disable=SC2206 # None, or several.
  local packages=("${build_packages[@]}" "${runtime_packages[@]}" $node)
  ! given DATABASE_URL || own_database=0
  ! given AMQP_URL || own_broker=0
  ((!own_database)) || packages+=("${database_packages[@]}")
  ((!own_broker)) || packages+=("${broker_packages[@]}")
  lock
  need_packages "${packages[@]}"
  make_state
  build release build
  start_services
  start_programs
  remember EXPECTED "${expected[*]}"
  unlock
}
