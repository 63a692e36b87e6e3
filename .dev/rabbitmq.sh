# shellcheck shell=bash
# A private RabbitMQ in a folder, on PORT, PORT+1 (distribution) and PORT+2 (its epmd).

rabbitmq_configure() {
  local dir=$1 port=$2
  mkdir -p "$dir"/{home,mnesia,mnesia-4,log}
  [[ -s $dir/home/.erlang.cookie ]] || {
    new_secret >"$dir/home/.erlang.cookie"
    chmod 400 "$dir/home/.erlang.cookie"
  }
  : >"$dir/env.conf"
  echo '[].' >"$dir/advanced.config"
  echo '[].' >"$dir/enabled_plugins"
  cat >"$dir/rabbitmq.conf" <<END
listeners.tcp.1 = 127.0.0.1:$port
default_user = app
default_pass = $(secret_in "$dir/app.password")
loopback_users = none
disk_free_limit.absolute = 50MB
vm_memory_high_watermark.absolute = 1GB
log.console = false
END
  # Made by tests only: then TLS alone, and clients must show a certificate, too.
  if [[ -s $dir/tls/server.pem ]]; then
    sed -i "s/^listeners\.tcp\.1 = /listeners.tcp = none\nlisteners.ssl.1 = /" "$dir/rabbitmq.conf"
    printf 'ssl_options.%s\n' "cacertfile = $dir/tls/ca.pem" "certfile = $dir/tls/server.pem" \
      "keyfile = $dir/tls/server.key" 'verify = verify_peer' 'fail_if_no_peer_cert = true' \
      >>"$dir/rabbitmq.conf"
  fi
}

# Every place the launcher would look for settings is named, in an otherwise empty environment: with
# one left out it reads and writes the system's folders. @localhost: the host's own name may not
# resolve. The launcher under /usr/lib does not change user, as the one in /usr/sbin does.
rabbitmq_command() {
  local dir=$1 port=$2
  # Erlang's schedulers spin for a while before they sleep: on cores that others share, that is taken from these.
  local erlang_arguments='+sbwt none +sbwtdcpu none +sbwtdio none'
  erlang_arguments+=' -start_epmd false -kernel inet_dist_use_interface {127,0,0,1}'
  rabbitmq_launch=(env -i PATH="$PATH" LANG=C.UTF-8 HOME="$dir/home" detached=1
    RABBITMQ_CONF_ENV_FILE="$dir/env.conf" RABBITMQ_CONFIG_FILE="$dir/rabbitmq.conf"
    RABBITMQ_ADVANCED_CONFIG_FILE="$dir/advanced.config"
    RABBITMQ_ENABLED_PLUGINS_FILE="$dir/enabled_plugins"
    RABBITMQ_MNESIA_BASE="$dir/mnesia" RABBITMQ_LOG_BASE="$dir/log"
    RABBITMQ_PID_FILE="$dir/rabbitmq.own-pid" RABBITMQ_NODENAME=audiogen@localhost
    RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$port"
    RABBITMQ_DIST_PORT="$((port + 1))" ERL_EPMD_PORT="$((port + 2))" ERL_EPMD_ADDRESS=127.0.0.1
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="$erlang_arguments"
    /usr/lib/rabbitmq/bin/rabbitmq-server)
  # It would be taken for a second port, without TLS.
  [[ ! -s $dir/tls/server.pem ]] || rabbitmq_launch=("${rabbitmq_launch[@]/RABBITMQ_NODE_PORT=*/TLS_ONLY=1}")
  rabbitmq_epmd=(epmd -port $((port + 2)) -address 127.0.0.1)
  if [[ $(broker_kind "$dir") == 4 ]]; then
    local command_there
    in_unstable "$dir" "${rabbitmq_launch[@]/RABBITMQ_MNESIA_BASE=*/RABBITMQ_MNESIA_BASE=$dir/mnesia-4}"
    rabbitmq_launch=("${command_there[@]}")
    in_unstable "$dir" "${rabbitmq_epmd[@]}"
    rabbitmq_epmd=("${command_there[@]}")
  fi
}

# rabbitmq_control DIR PORT ARGUMENTS…: rabbitmqctl.
rabbitmq_control() {
  local dir=$1 port=$2 command_there
  shift 2
  command_there=(env -i PATH="$PATH" LANG=C.UTF-8 HOME="$dir/home" ERL_EPMD_PORT="$((port + 2))"
    /usr/lib/rabbitmq/bin/rabbitmqctl -q -n audiogen@localhost "$@")
  [[ $(broker_kind "$dir") != 4 ]] || in_unstable "$dir" "${command_there[@]}"
  "${command_there[@]}"
}

# rabbitmq_start DIR PORT: returns when it takes connections.
rabbitmq_start() {
  local dir=$1 port=$2 kind rabbitmq_launch rabbitmq_epmd
  kind=$(broker_kind "$dir") || return 1
  becomes "$dir" "$kind" 3 rabbitmq_stop "$dir"
  if ! alive "$dir/rabbitmq.pid"; then
    [[ $kind != 4 ]] || lay_unstable
    rabbitmq_configure "$dir" "$port"
    rabbitmq_command "$dir" "$port"
    # Our own epmd, first: one that the node starts by itself outlives everything.
    stop "$dir/epmd.pid" 5
    spawn "$dir/epmd.pid" "$dir/log/epmd.log" "$dir" "${rabbitmq_epmd[@]}"
    if ! wait_ready "$dir/epmd.pid" 20 port_taken $((port + 2)); then
      show_log "$dir/log/epmd.log"
      return 1
    fi
    : >"$dir/console.log"
    spawn "$dir/rabbitmq.pid" "$dir/console.log" "$dir" "${rabbitmq_launch[@]}"
  fi
  # Cold starts are pure CPU: 6 s alone, several times that on a busy machine.
  wait_ready "$dir/rabbitmq.pid" 120 grep -q 'completed with' "$dir/console.log" && return 0
  alive "$dir/rabbitmq.pid" || stop "$dir/epmd.pid" 5
  show_log "$dir/console.log"
  return 1
}

rabbitmq_url() { printf 'amqp://app:%s@127.0.0.1:%s/' "$(<"$1/app.password")" "$2"; }

# rabbitmq_hosts DIR PORT NAME…: virtual hosts, each with queues of its own, for the same user.
rabbitmq_hosts() {
  local dir=$1 port=$2 names
  shift 2
  names=$(printf ',<<"%s">>' "$@")
  rabbitmq_control "$dir" "$port" eval "[ok, ok] = lists:usort(
    [rabbit_vhost:add(V, <<\"dev\">>) || V <- [${names:1}]]) ++ lists:usort(
    [rabbit_auth_backend_internal:set_permissions(<<\"app\">>, V, <<\".*\">>, <<\".*\">>, <<\".*\">>, <<\"dev\">>) ||
      V <- [${names:1}]])."
}

rabbitmq_stop() {
  stop "$1/rabbitmq.pid" 30
  stop "$1/epmd.pid" 5
}
