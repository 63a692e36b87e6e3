# shellcheck shell=bash
# Messages: progress on stderr, results on stdout.

step_name=''
step_started=0
ticker=''

say() { printf '%s\n' "$*" >&2; }

die() {
  end_ticker
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
  printf 'dev: %s\n' "$*" >&2
  exit 1
}

step() {
  step_name=$1
  step_started=$(date +%s%N)
  [[ ! -t 2 ]] || printf '%s …' "$1" >&2
}

step_done() {
  local tenths=$((($(date +%s%N) - step_started) / 100000000))
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
  say "$step_name: ${1:-done} ($((tenths / 10)).$((tenths % 10)) s)"
}

end_ticker() {
  [[ -z $ticker ]] || kill "$ticker" 2>/dev/null || true
  ticker=''
}

# On a terminal: rewrites the step's line with the newest line of a log, until end_ticker.
begin_ticker() {
  [[ -t 2 ]] || return 0
  (
    trap - EXIT
    columns=$(tput cols 2>/dev/null || echo 80)
    while sleep 0.3 && kill -0 $$ 2>/dev/null; do
      line="$step_name … $(tail -n 1 "$1" 2>/dev/null || true)"
      printf '\r\033[K%s' "${line:0:columns-1}" >&2
    done
  ) &
  ticker=$!
}

# logged LOG COMMAND…: runs it in the foreground (so that Ctrl-C reaches it), its output in LOG;
# on failure shows the part that tells why.
logged() {
  local log=$1 status=0
  shift
  begin_ticker "$log"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  end_ticker
  if ((status != 0)); then
    [[ ! -t 2 ]] || printf '\r\033[K' >&2
    { grep -m 1 -A 40 -E '^FAILED:|CMake Error|^E: ' "$log" || tail -n 40 "$log"; } >&2
    die "$step_name failed; all of its output is in $log"
  fi
}
