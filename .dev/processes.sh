# shellcheck shell=bash
# Waiting, and processes that outlive the command.

# wait_until SECONDS COMMAND…
wait_until() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.05
  done
}

# Sets proc_state, proc_session and proc_start of a process; false when there is none.
read_process() {
  local stat fields
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  read -ra fields <<<"${stat##*) }"  # The name before it may contain anything.
  ((${#fields[@]} >= 20)) || return 1
  proc_state=${fields[0]} proc_session=${fields[3]} proc_start=${fields[19]}
}

# alive PIDFILE: sets `pid`. The start time guards against a reused number, the file's own name in
# it against a pid file that was copied together with the checkout. (Where a process works cannot be
# asked: only root may look into our programs.)
alive() {
  local start name
  pid=''
  [[ -r $1 ]] || return 1
  read -r pid start name <"$1" || return 1
  read_process "$pid" || return 1
  [[ $proc_state != Z && $proc_start == "$start" && ${name:-$1} == "$1" ]]
}

gone() { ! alive "$1"; }

# Enough for every connection; "unlimited" would make Erlang reserve gigabytes for its table.
allow_files() { ulimit -Sn 65536 2>/dev/null || ulimit -Sn "$(ulimit -Hn)"; }

# unrandomized COMMAND…: sanitizers of this compiler fail at random where the kernel randomizes addresses widely.
unrandomized() {
  if setarch --addr-no-randomize true 2>/dev/null; then
    setarch --addr-no-randomize "$@"
  else
    "$@"
  fi
}

# spawn PIDFILE LOG FOLDER COMMAND…: starts a daemon in a session of its own that outlives this
# script: nothing of ours stays open in it (a pipe would keep a caller waiting, a lock would never
# be released).
spawn_prefix=()
spawn() {
  local pid_file=$1 log=$2 folder=$3 here=$PWD
  shift 3
  cd "$folder" || die "no folder $folder"  # Before the fork: alive() may look at once.
  (
    trap - EXIT INT TERM
    for fd in /proc/self/fd/*; do
      fd=${fd##*/}
      ((fd <= 2)) || exec {fd}>&-
    done
    allow_files
    exec "${spawn_prefix[@]}" setsid "$@" </dev/null >>"$log" 2>&1
  ) &
  cd "$here"
  read_process $! || die "${1##*/} did not start"
  printf '%s %s %s\n' $! "$proc_start" "$pid_file" >"$pid_file"
  disown $!  # Bash would comment on its end.
}

# wait_ready PIDFILE SECONDS COMMAND…: until COMMAND succeeds; false when it ends or is late.
wait_ready() {
  local pid_file=$1 end=$((SECONDS + $2))
  shift 2
  until "$@"; do
    alive "$pid_file" && ((SECONDS < end)) || return 1
    sleep 0.05
  done
  alive "$pid_file"  # Else it was somebody else's answer.
}

# stop PIDFILE SECONDS: SIGTERM, and SIGKILL when it takes longer; with the children it left.
stop() {
  local number
  if alive "$1"; then
    number=$pid
    kill -TERM "$number" 2>/dev/null || true
    if ! wait_until "$2" gone "$1"; then
      say "$(basename "$1" .pid) did not stop within $2 s; killing it"
    fi
    kill_daemon "$1" "$number"
  fi
  rm -f "$1"
}

# kill_daemon PIDFILE [PID]: SIGKILL to the daemon and what is left of its session.
kill_daemon() {
  local number=${2:-} process
  if alive "$1"; then
    number=$pid
    kill -KILL "$pid" 2>/dev/null || true  # By its number: one spawned a moment ago leads no session yet.
  fi
  [[ -n $number ]] || return 0
  for process in /proc/[0-9]*; do
    process=${process##*/}
    if read_process "$process" && [[ $proc_session == "$number" && $proc_state != Z ]]; then
      kill -KILL "$process" 2>/dev/null || true
    fi
  done
  wait_until 10 gone "$1" || die "process $number cannot be killed"
}

# Ends what an interrupted run left behind in FOLDER/: our kinds of program, working there.
kill_strays() {
  local process name
  for process in /proc/[0-9]*; do
    # Those of unstable.sh see the same folder below a root of their own.
    if [[ $(readlink "$process/cwd" 2>/dev/null) =~ ^("$unstable")?"$1" ]]; then
      name=$(readlink "$process/exe" 2>/dev/null) || continue
      name=${name% (deleted)}
    else
      # Only root may ask our programs where they work; how they were called, everybody.
      { IFS= read -r -d '' name <"$process/cmdline"; } 2>/dev/null || continue
      [[ $name == "$1"* ]] || continue
    fi
    case $name in
      "$1"* | */mariadbd | */mysqld | */beam.smp | */erl_child_setup | */inet_gethost | */epmd | */ctest)
        kill -KILL "${process##*/}" 2>/dev/null || true
        ;;
    esac
  done
}

# One `./dev` at a time changes the stack of this checkout.
lock() {
  exec {lock_fd}<"$root/dev"
  if ! flock -n "$lock_fd"; then
    say 'Waiting for another ./dev to finish'
    flock "$lock_fd"
  fi
}

unlock() { exec {lock_fd}<&-; }
