# shellcheck shell=bash
# The drill: parts of the stack break one by one, and whoever watches sees what that looks like.

readonly drills=(broker database workers frozen provider backlog)

# drill_words NAME: what breaks, what the first line of /ops then says (a pattern), and the section of RUNBOOK.md.
drill_words() {
  case $1 in
    broker) drill_breaks='RabbitMQ is killed' drill_says='^Broker away' drill_section=BrokerAway ;;
    database)
      drill_breaks='The database is killed' drill_says='The database does not answer' drill_section=DatabaseAway
      ;;
    workers)
      drill_breaks='All workers are killed' drill_says='No worker takes tasks|worker.* not heard of'
      drill_section=NoWorkers
      ;;
    frozen)
      drill_breaks='A worker stands still (SIGSTOP)' drill_says='worker `.*` not heard of' drill_section=LeasesLost
      ;;
    provider)
      drill_breaks='The engine of the provider `local` is taken away' drill_says='provider `local` (open|half open)'
      drill_section=AllProvidersOpen
      ;;
    backlog)
      drill_breaks='Workers take two tasks at a time, and one user asks for 100 files of two minutes'
      drill_says='^(Busy|Falling behind|Catching up|Behind|Stalled)' drill_section=FallingBehind
      ;;
    *) return 1 ;;
  esac
}

drill_workers() {
  local file
  for file in "$state"/run/worker-*.pid; do
    if alive "$file"; then printf '%s\n' "$file"; fi
  done
}

# drill_tasks COUNT PROMPT: generations of the demo user, asked for ten at a time; their ids.
drill_tasks() {
  local number
  {
    printf 'header = "Authorization: Bearer %s"\nheader = "Content-Type: application/json"\n' "$(<"$state/demo-key")"
    jq -nr --arg model "${BRAND:-svc}-audio-1.0" --arg prompt "$2" '"data-binary = " + ($ARGS.named | tojson | tojson)'
    for ((number = 0; number < $1; number++)); do
      printf 'url = "%s"\n' "$drill_url"
    done
  } | local_curl --no-progress-meter --parallel --parallel-max 10 --max-time 30 --config - | jq -r '.id // empty' || true
}

drill_break() {
  local file process name
  case $1 in
    broker) kill_daemon "$state/rabbitmq/rabbitmq.pid" ;;
    database) kill_daemon "$state/mariadb/mariadbd.pid" ;;
    workers)
      for file in $(drill_workers); do
        kill_daemon "$file"
      done
      ;;
    frozen)
      file=$(drill_workers)
      alive "${file%%$'\n'*}" || die 'no worker runs'
      kill -STOP "$pid"
      ;;
    provider)
      mv "$state/build/bin/audio-speech" "$state/build/bin/audio-speech.away"
      for process in /proc/[0-9]*; do  # Those that run would go on.
        { IFS= read -r -d '' name <"$process/cmdline"; } 2>/dev/null || continue
        [[ $name != "$state/build/bin/audio-speech" ]] || kill -KILL "${process##*/}" 2>/dev/null || true
      done
      # They go on waiting, and are served once it is mended.
      drill_tasks 6 'Is anybody there?' >/dev/null
      ;;
    backlog)
      # Some two minutes of speech, which is the most that a file has.
      (WORKER_IN_FLIGHT=2 && export WORKER_IN_FLIGHT && start_programs)
      drill_ids=$(drill_tasks 100 "$(printf 'The number is %d. ' {1000..1079})")
      ;;
  esac
}

# Also at the end of a run that is broken off, by a trap: there a bare `return` does not say how the command before it
# ended, so what this uses has none.
drill_mend() {
  local file id
  case $1 in
    broker | database)
      start_services
      start_programs  # Its port may be another.
      ;;
    workers) start_programs ;;
    backlog)
      for id in $drill_ids; do
        admin task cancel "$id" --reason "the drill is over" >/dev/null 2>&1 || true  # Some are done.
      done
      start_programs
      ;;
    frozen)
      for file in $(drill_workers); do
        if alive "$file"; then kill -CONT "$pid"; fi
      done
      ;;
    provider)
      [[ ! -e $state/build/bin/audio-speech.away ]] ||
        mv "$state/build/bin/audio-speech.away" "$state/build/bin/audio-speech"
      ;;
  esac
}

# The first line of /ops.
drill_sentence() {
  local answer
  answer=$(local_curl --max-time 5 "http://$drill_ops/ops/now" 2>/dev/null) || answer='{}'
  jq -er '.verdict // .error' <<<"$answer" 2>/dev/null || echo 'the API does not answer'
}

# drill_fits PATTERN: whether the sentence does; keeps it in drill_said.
drill_fits() {
  drill_said=$(drill_sentence)
  [[ $drill_said =~ $1 ]]
}
# The same, of a service that is at work: a breaker that was open tries whether all is well with a call that somebody
# asks for, and at each worker.
drill_is_well() {
  drill_fits '^Healthy$' && return 0
  if [[ $drill_said == *'half open'* ]]; then
    drill_tasks 4 'Is anybody there?' >/dev/null
    sleep 2  # Until the workers have told what came of it.
  fi
  return 1
}

run_drill() {
  local name=$1 drill_breaks drill_says drill_section
  drill_words "$name"
  say "$name: $drill_breaks."
  drill_broken=$name
  step '  /ops says'
  drill_break "$name"
  wait_until 90 drill_fits "$drill_says" || die "/ops does not say so, but: $drill_said"
  step_done "\"$drill_said\""
  say "  Watch http://$drill_ops/ops and ./dev admin queue --watch; RUNBOOK.md: $drill_section"
  if [[ -t 0 ]]; then
    read -rp '  Enter mends it. ' || true
  fi
  drill_mend "$name"
  drill_broken=''
  step '  Mended'
  # A silent worker is told to be gone, what waited is done.
  wait_until 180 drill_is_well || die "/ops does not say that all is well, but: $drill_said"
  step_done "\"$drill_said\""
}

drill_end() {
  [[ -z $drill_broken ]] || drill_mend "$drill_broken"
}

# Of a stack that is up.
drill() {
  local name
  # Not local: the trap needs them after a failure, too.
  drill_ids='' drill_said=''
  drill_url=$(base_url)/api/v1/audio/generations drill_ops=$(reachable "$(api_ops)")
  demo_account "$drill_url"
  admin_json credits grant --user "$demo_email" --credits 50000 --kind purchase \
    --reference "drill-$(date +%s%N)" >/dev/null
  drill_broken=''
  trap 'end_ticker; drill_end' EXIT
  wait_until 60 drill_fits '^Healthy$' || die "not now: $drill_said"
  for name; do
    run_drill "$name"
  done
}

command_drill() {
  local name
  own_database=1 own_broker=1 expected=()
  for name; do
    drill_words "$name" || die "there is no drill $name, but: ${drills[*]}"
  done
  (($# > 0)) || set -- "${drills[@]}"
  for name in DATABASE_URL AMQP_URL PROVIDERS_FILE; do
    ! given "$name" || die "the drill breaks what ./dev up has started by itself: not with $name"
  done
  ((${WORKERS:-2} >= 2)) || die 'the drill wants two workers: one stands still'
  up
  lock
  drill "$@"
}
