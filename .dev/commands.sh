# shellcheck shell=bash
# The commands about the stack: starting, looking at it, stopping.

command_up() {
  up
  base_url
  sign_in_link
}

admin() (
  as_started
  stack_environment admin
  exec "$state/build/bin/audio-api" admin "$@"
)

command_onnx() {
  local node
  node=$(missing_node_packages) || exit 1
  # shellcheck disable=SC2086 # None, or several.
  need_packages ca-certificates $node
  make_state
  step 'Installing the runtime for models'
  logged "$state/logs/onnx.log" "$root/worker/onnx/runtime/install.sh" "$state/onnx"
  step_done
  printf '%s\n' "$state/onnx"
}

command_admin() {
  local argument
  for argument; do
    [[ $argument == -h || $argument == --help ]] || continue
    # The program itself knows what there is, and needs no stack for that.
    [[ ! -x $state/build/bin/audio-api ]] || exec "$state/build/bin/audio-api" admin "$@"
    help_of admin
    return
  done
  [[ -x $state/build/bin/audio-api ]] || die 'the stack is not there yet; run ./dev up'
  given DATABASE_URL || alive "$state/mariadb/mariadbd.pid" ||
    die 'the stack is not running; run ./dev up'
  admin "$@"
}

# The API's reply to a request of the demo in `reply`, its status in `http_status`. The key goes
# through a pipe: arguments can be read by everyone on the machine.
demo_request() {
  local answer
  answer=$(local_curl --max-time 15 --write-out '\n%{http_code}' \
    --config <(printf 'header = "Authorization: Bearer %s"\n' "$(<"$state/demo-key")") "$@") ||
    die "the API does not answer (./dev status tells more)"
  http_status=${answer##*$'\n'}
  reply=${answer%$'\n'*}
}

api_error() { jq -r '.error | "\(.code): \(.message)"' <<<"$1" 2>/dev/null || printf '%s\n' "$1"; }

# An admin command's answer. Why there is none it says on stderr, as JSON where it got as far as that.
admin_json() {
  local answer failure=$state/run/admin.failure
  answer=$(admin "$@" --json 2>"$failure") ||
    die "$(jq -er '.error.message // empty' "$failure" 2>/dev/null || cat "$failure")"
  printf '%s\n' "$answer"
}

readonly demo_email=demo@example.com

# The demo user is there, and has the credits for a generation: whoever follows the link wants to hear one.
demo_user() {
  local user
  user=$(admin user show --user "$demo_email" --json 2>/dev/null) || {
    admin_json user create --email "$demo_email" --plan paid >/dev/null
    user=$(admin_json user show --user "$demo_email")
  }
  if jq -e '.available_credits < 150' <<<"$user" >/dev/null; then
    admin_json credits grant --user "$demo_email" --credits 1000 --kind purchase \
      --reference "demo-$(date +%s%N)" >/dev/null
  fi
}

# A link by which the demo user signs in to the console. Nothing where the API has no console, and
# for a database that is not ours: whoever runs a service of his own wants no such user.
sign_in_link() {
  ! given DATABASE_URL || return 0
  local_curl --fail --max-time 5 --output /dev/null \
    "http://$(reachable "$(api_listen)")/console/" 2>/dev/null || return 0
  demo_user
  admin_json user login-link --user "$demo_email" | jq -er '.url'
}

demo_account() {
  local url=$1
  demo_user
  # The key kept from last time may belong to a database that is gone.
  [[ ! -s $state/demo-key ]] || demo_request "$url/aud_00000000000000000000000000"
  if [[ ! -s $state/demo-key || $http_status == 401 ]]; then
    admin_json key create --user "$demo_email" --name demo | jq -er '.key' >"$state/demo-key.new"
    mv "$state/demo-key.new" "$state/demo-key"
  fi
}

demo_wait() {
  local id=$1 url=$2 status
  step "Generating $id"
  for (( ; ; )); do
    demo_request "$url/$id"
    [[ $http_status == 200 ]] || die "polling failed: $(api_error "$reply")"
    status=$(jq -r '.status' <<<"$reply")
    case $status in
      succeeded) break ;;
      failed | canceled) die "the generation $status: $(api_error "$reply")" ;;
    esac
    [[ ! -t 2 ]] || printf '\r\033[K%s … %s' "$step_name" "$status" >&2
    sleep 1
  done
  step_done "$status"
}

demo_prompt='Welcome aboard. This short announcement was spoken and priced on your own machine.'

command_demo() {
  local url id file body reply http_status=''
  up
  url=$(base_url)/api/v1/audio/generations
  demo_account "$url"
  body=$(jq -nc --arg model "${BRAND:-svc}-audio-1.0" --arg prompt "$demo_prompt" '$ARGS.named')
  demo_request --request POST "$url" --header 'Content-Type: application/json' \
    --header "Idempotency-Key: demo-$(date +%s%N)" --data-binary "$body"
  [[ $http_status == 202 ]] || die "the API refused the request: $(api_error "$reply")"
  id=$(jq -r '.id' <<<"$reply")
  demo_wait "$id" "$url"
  mkdir -p "$state/demo"
  file=$state/demo/$id.mp3
  local_curl --fail --max-time 60 --output "$file" "$(jq -r '.output.url' <<<"$reply")" ||
    die 'the audio file cannot be fetched'
  [[ -s $file ]] || die 'the audio file is empty'
  demo_previews
  demo_report "$url" "$id" "$file" "$body"
}

# Samples of the voices, for the console: cheap where the local engine speaks, and once. A chain of
# providers is paid for, so there whoever runs it asks for them himself.
demo_previews() {
  local answer
  ! given PROVIDERS_FILE || return 0
  step 'Rendering samples of the voices'
  if answer=$(admin voices render --json 2>/dev/null); then
    step_done "$(jq -r '.rendered' <<<"$answer") new"
  else
    step_done 'not all of them; ./dev admin voices render tells why'
  fi
}

demo_report() {
  local url=$1 id=$2 file=$3 body=$4 balance link
  balance=$(admin_json user show --user "$demo_email" | jq -r '.available_credits')
  link=$(sign_in_link)
  cat <<END

Saved    .local/demo/${file##*/} ($(stat -c %s "$file") bytes)
Length   $(jq -r '.output.duration_seconds' <<<"$reply") s
Charged  $(jq -r '.usage.credits' <<<"$reply") credits, of 150 reserved; $balance left
${link:+Console  $link (works once, within 10 minutes)
}
The same by hand:

  KEY=\$(cat $state/demo-key)
  curl $url -H "Authorization: Bearer \$KEY" \\
    -H 'Content-Type: application/json' -H 'Idempotency-Key: any-name-1' \\
    -d '$body'
  curl $url/$id -H "Authorization: Bearer \$KEY"
  curl -o demo.mp3 $(jq -r '.output.url' <<<"$reply")
END
}

# Sets pid_file, address and ready_command of a part of the stack.
describe() {
  case $1 in
    mariadb)
      pid_file=$state/mariadb/mariadbd.pid address=127.0.0.1:$(recall MARIADB_PORT)
      ready_command=(mariadb_answers "$state/mariadb")
      ;;
    rabbitmq)
      pid_file=$state/rabbitmq/rabbitmq.pid address=127.0.0.1:$(recall AMQP_PORT)
      ready_command=(port_taken "${address##*:}")
      ;;
    api)
      local addresses=("$(api_listen)" "$(api_ops)")
      [[ ! -s $state/run/api.addresses ]] || mapfile -t addresses <"$state/run/api.addresses"
      pid_file=$state/run/api.pid address=${addresses[0]}
      ready_command=(answers_ready "$(reachable "${addresses[1]}")")
      ;;
    *)
      local number=${1#worker-}
      pid_file=$state/run/$1.pid address=127.0.0.1:$(recall "WORKER_${number}_PORT")
      ready_command=(answers_ready "$address")
      ;;
  esac
}

uptime_of() {
  local now seconds
  read -r now _ </proc/uptime
  seconds=$((${now%.*} - $1 / $(getconf CLK_TCK)))
  printf '%d:%02d:%02d' $((seconds / 3600)) $((seconds / 60 % 60)) $((seconds % 60))
}

command_status() {
  local name parts pid_file address ready_command pid condition failed=0
  read -ra parts <<<"$(recall EXPECTED)"
  if ((${#parts[@]} == 0)); then
    say 'The stack is not running; run ./dev up'
    return 1
  fi
  printf '%-10s %-10s %8s %10s  %s\n' NAME STATE PID UPTIME ADDRESS
  for name in "${parts[@]}"; do
    describe "$name"
    if ! alive "$pid_file"; then
      failed=1
      printf '%-10s %-10s %8s %10s  %s\n' "$name" down - - "$address"
      continue
    fi
    condition=ready
    "${ready_command[@]}" || { condition='not ready'; failed=1; }
    printf '%-10s %-10s %8s %10s  %s\n' \
      "$name" "$condition" "$pid" "$(uptime_of "$proc_start")" "$address"
  done
  show_versions
  return "$failed"
}

show_versions() {
  local program version
  echo
  for program in audio-api audio-worker; do
    version=$(timeout 5 "$state/build/bin/$program" --version 2>/dev/null) || version='(unknown)'
    printf '%s %s\n' "$program" "${version%%$'\n'*}"
  done
  dpkg-query -W -f '${Package} ${Version}\n' "${database_packages[@]}" "${broker_packages[@]}" \
    2>/dev/null || true
}

command_logs() {
  local file name followers=() how=(--lines=200)
  case ${1:-} in
    '') ;;
    -f) how+=(--follow=name --retry) ;;
    *) usage_error logs ;;
  esac
  trap 'kill "${followers[@]}" 2>/dev/null || true' EXIT
  for file in "$state"/logs/*.log "$state"/mariadb/mariadb.log "$state"/rabbitmq/console.log \
    "$state"/rabbitmq/log/audiogen@localhost.log; do
    [[ -s $file ]] || continue
    name=${file#"$state"/}
    name=${name#logs/}
    name=${name%.log}
    if [[ ${1:-} == -f ]]; then
      tail "${how[@]}" "$file" 2>/dev/null > >(exec sed -u "s|^|${name%%/*} \| |") &
      followers+=($!)
    else
      tail "${how[@]}" "$file" | sed "s|^|${name%%/*} \| |"
    fi
  done
  wait
}

stop_all() {
  local file
  if compgen -G "$state/run/worker-*.pid" >/dev/null; then
    step 'Stopping the workers'
    for file in "$state"/run/worker-*.pid; do
      stop "$file" 930 &
    done
    wait
    step_done
  fi
  stop_part 'the API' "$state/run/api.pid" stop "$state/run/api.pid" 30
  stop_part RabbitMQ "$state/rabbitmq/epmd.pid" rabbitmq_stop "$state/rabbitmq"
  stop_part "$(database_name "$state/mariadb")" "$state/mariadb/mariadbd.pid" stop "$state/mariadb/mariadbd.pid" 60
}

# stop_part NAME PIDFILE COMMAND…
stop_part() {
  [[ -e $2 ]] || return 0
  step "Stopping $1"
  "${@:3}"
  step_done
}

command_down() {
  local folder
  [[ $# == 0 || $* == --wipe ]] || usage_error down
  if [[ ! -d $state ]]; then
    say 'There is nothing to stop'
    return
  fi
  lock
  stop_all
  remember EXPECTED ''
  if [[ ${1:-} == --wipe ]]; then
    kill_strays "$state/"
    for folder in "$state"/*/mariadb; do  # What a killed test run kept in memory.
      leave_memory "$folder"
    done
    rm -rf "$state"
    say 'Deleted .local'
  fi
}
