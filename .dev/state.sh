# shellcheck shell=bash
# What .local/ keeps from one command to the next.

make_state() {
  mkdir -p "$state" 2>/dev/null || die "cannot write to $root"
  [[ -O $state ]] || die "$state belongs to $(stat -c %U "$state"); run as that user"
  chmod 700 "$state"
  mkdir -p "$state"/{blobs,logs,run}
}

# remember NAME VALUE and recall NAME: what outlives a run (ports), one NAME=VALUE a line.
remember() {
  local file=$state/env
  (
    flock 9  # Two commands at once would each lose what the other has written.
    { grep -v "^$1=" "$file" 2>/dev/null || true; printf '%s=%s\n' "$1" "$2"; } >"$file.new"
    mv "$file.new" "$file"
  ) 9>>"$file.lock"
}

recall() { sed -n "s/^$1=//p" "$state/env" 2>/dev/null || true; }

new_secret() { head -c 256 /dev/urandom | base64 -w 0 | tr -dc 'A-Za-z0-9' | cut -c 1-32; }

# secret_in FILE: the secret kept there, made at the first use.
secret_in() {
  [[ -s $1 ]] || { new_secret >"$1.new" && mv "$1.new" "$1"; }
  cat "$1"
}

# Whether something listens on a TCP port, on any address.
port_taken() {
  grep -qi "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") [0-9A-F:]* 0A " /proc/net/tcp /proc/net/tcp6 \
    2>/dev/null
}

# claim_ports NAME PREFERRED COUNT: sets `port` to the first of COUNT free ports in a row, the
# remembered ones where they are still free. Below 32768: above it, outgoing connections take them.
claim_ports() {
  local name=$1 preferred=$2 count=$3 first offset
  first=$(recall "$name")
  first=${first:-$preferred}
  for ((port = first; port < 32000; port += 10)); do
    for ((offset = 0; offset < count; offset++)); do
      ! port_taken $((port + offset)) || continue 2
    done
    remember "$name" "$port"
    return 0
  done
  die "no free port from $first on"
}

# with_ports NAME PREFERRED COUNT PIDFILE COMMAND…: COMMAND starts a daemon on `port`; a running one
# keeps its port.
# Another checkout may take the port at the same moment; then the next free one is tried. A daemon
# that is only slow listens where it was told to: it is waited for again.
with_ports() {
  local name=$1 preferred=$2 count=$3 pid_file=$4 offset
  shift 4
  if alive "$pid_file"; then
    port=$(recall "$name")
    "$@"
    return $?
  fi
  for _ in 1 2 3; do
    alive "$pid_file" || claim_ports "$name" "$preferred" "$count"
    "$@" && return 0
    ! alive "$pid_file" || continue
    for ((offset = 0; offset < count; offset++)); do
      ! port_taken $((port + offset)) || continue 2
    done
    return 1
  done
  return 1
}

show_log() {
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
  say "--- last lines of $1"
  tail -n 20 "$1" >&2 2>/dev/null || true
}
