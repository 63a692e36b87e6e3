# shellcheck shell=bash
# Two clusters on one machine as on three: nodes 1, 2 and 3, on each a MariaDB (Galera) and a RabbitMQ. A node is a
# network namespace. Among the nodes is a switch, from which each can be unplugged; clients reach each by a cable of
# its own. All of it lies in network and mount namespaces that the caller has made for himself: nobody else on this
# machine sees it, nothing leaves it, and it is gone with the last process.

readonly cluster_nodes=(1 2 3)
# Of node N: 10.99.0.N among the nodes, 10.99.N.2 for clients, which come from 10.99.N.1. Ports are the usual ones.
readonly cluster_clients='10.99.%'
readonly galera_port=3306 rabbits_port=5672
# A node of which nothing is heard for 2 s is left behind. Galera's 5 s are as long as our
# programs wait for an answer: then nobody knows what became of the COMMITs that were under way.
readonly galera_patience='evs.keepalive_period=PT0.5S;evs.inactive_check_period=PT0.25S;evs.suspect_timeout=PT2S;evs.inactive_timeout=PT5S;evs.install_timeout=PT5S'

nodes_make() {
  local node
  [[ $(readlink /proc/self/ns/net) != "$(readlink /proc/1/ns/net)" ]] ||
    die 'nodes are made in a network namespace of its own only'
  mkdir -p /run/netns
  mount -t tmpfs none /run/netns
  ip link set lo up
  ip netns add switch
  ip -n switch link add name switch type bridge
  ip -n switch link set switch up
  for node in "${cluster_nodes[@]}"; do
    ip netns add "node$node"
    ip -n "node$node" link set lo up
    ip -n switch link add name "node$node" type veth peer name peers netns "node$node"
    ip -n switch link set "node$node" master switch up
    ip -n "node$node" address add "10.99.0.$node/24" dev peers
    ip -n "node$node" link set peers up
    ip link add name "node$node" type veth peer name clients netns "node$node"
    ip address add "10.99.$node.1/30" dev "node$node"
    ip link set "node$node" up
    ip -n "node$node" address add "10.99.$node.2/30" dev clients
    ip -n "node$node" link set clients up
  done
}

# As when a switch fails: nothing passes any more, and nobody is told.
nodes_unplug() { ip -n switch link set "node$1" nomaster; }
nodes_plug() { ip -n switch link set "node$1" master switch; }

on_node() { spawn_prefix=(ip netns exec "node$1"); }

# all_nodes PREFIX: separated by commas.
all_nodes() {
  local list
  list=$(printf ",$1%s" "${cluster_nodes[@]}")
  echo "${list:1}"
}

# Galera: DIR has what all share, DIR/NODE is a server's own.

galera_configure() {
  local dir=$1/$2 address=10.99.0.$2 user
  mkdir -p "$dir" "$1/bin"
  for user in owner "${database_users[@]}"; do
    secret_in "$1/$user.password" >"$dir/$user.password"
  done
  mariadb_configure "$dir" "$galera_port"
  # Users are the cluster's: made once.
  sed -i -e '/^init-file=/d' -e 's/^bind-address=.*/bind-address=0.0.0.0/' "$dir/my.cnf"
  cat >"$dir/galera.cnf" <<END
[mariadbd]
wsrep_on=ON
wsrep_provider=/usr/lib/galera/libgalera_smm.so
wsrep_cluster_name=audiogen
wsrep_cluster_address=gcomm://$(all_nodes 10.99.0.)
wsrep_node_name=node$2
wsrep_node_address=$address
wsrep_provider_options="gmcast.listen_addr=tcp://$address:4567;$galera_patience"
wsrep_sst_method=audiogen
binlog_format=ROW
innodb_autoinc_lock_mode=2
END
  cat "$dir/galera.cnf" >>"$dir/my.cnf"
  # A server that joins gets what it lacks by rsync, whose daemon would write as nobody where it runs as root.
  cat >"$1/bin/rsync" <<'END'
#!/bin/sh
case " $* " in *' --daemon '*) set -- "$@" --dparam=uid=0 --dparam=gid=0 ;; esac
exec /usr/bin/rsync "$@"
END
  cat >"$1/bin/wsrep_sst_audiogen" <<'END'
#!/bin/sh
PATH=${0%/*}:$PATH exec /usr/bin/wsrep_sst_rsync "$@"
END
  chmod 755 "$1/bin"/*
}

# galera_run DIR NODE ARGUMENTS…
galera_run() {
  local dir=$1/$2
  on_node "$2"
  mkdir -p "$dir/data"
  spawn "$dir/mariadbd.pid" "$dir/mariadb.log" "$dir/data" env PATH="$1/bin:$PATH" \
    mariadbd --defaults-file="$dir/my.cnf" --user=root "${@:3}"
}

galera_synced() {
  [[ $(mariadb_client "$1" --execute "SELECT variable_value FROM information_schema.global_status
    WHERE variable_name='wsrep_local_state_comment'" 2>/dev/null) == Synced ]]
}

# galera_position DIR NODE: up to where a server that does not run has committed, as CLUSTER:NUMBER.
galera_position() {
  local dir=$1/$2
  mariadbd --defaults-file="$dir/my.cnf" --user=root --wsrep-recover --log-error="$dir/recover.log" \
    >/dev/null 2>&1 </dev/null || true
  sed -n 's/.*WSREP: Recovered position: *\([^ ,]*\).*/\1/p' "$dir/recover.log" | tail -n 1
  rm -f "$dir/recover.log"
}

# galera_join DIR NODE: a server whose cluster is there; it goes on from where it was, or gets everything.
galera_join() {
  local dir=$1/$2 position=()
  alive "$dir/mariadbd.pid" && return 0
  galera_configure "$1" "$2"
  if [[ -d $dir/data ]]; then
    position=("--wsrep-start-position=$(galera_position "$1" "$2")")
  fi
  galera_run "$1" "$2" "${position[@]}"
}

# galera_lead DIR NODE: the first server of a cluster that has none any more.
galera_lead() {
  local dir=$1/$2
  galera_configure "$1" "$2"
  rm -f "$1"/*/data/gvwstate.dat
  sed -i 's/^safe_to_bootstrap:.*/safe_to_bootstrap: 1/' "$dir/data/grastate.dat" 2>/dev/null || true
  galera_run "$1" "$2" --wsrep-new-cluster
}

# A cluster that never was: one server with its users, from which the others get them.
galera_found() {
  local dir=$1/1 user
  galera_configure "$1" 1
  mariadb_install "$dir" --user=root || return 1
  mariadb_users "$dir" >"$dir/users.sql"
  for user in owner "${database_users[@]}"; do
    echo "CREATE USER $user@'$cluster_clients' IDENTIFIED BY '$(<"$dir/$user.password")';"
  done >>"$dir/users.sql"
  {
    echo 'CREATE DATABASE IF NOT EXISTS audiogen;'
    cat "$dir/users.sql"
    echo "GRANT ALL PRIVILEGES ON *.* TO owner@'$cluster_clients' WITH GRANT OPTION;"
  } >"$dir/found.sql"
  galera_lead "$1" 1
  wait_ready "$dir/mariadbd.pid" 60 eval "(cd '$dir/data' &&
    mariadb --no-defaults --socket=../s --user=root <'$dir/found.sql') 2>/dev/null"
}

# galera_start DIR [NODE]: NODE, or whoever does not run; returns when it is in step with the others. Of a cluster
# that nobody runs any more the one leads that has committed most.
galera_start() {
  local dir=$1 node nodes=("${@:2}") number most=-1 first=''
  ((${#nodes[@]} > 0)) || nodes=("${cluster_nodes[@]}")
  if [[ ! -d $dir/1/data ]]; then
    galera_found "$dir" || return 1
  elif ((${#nodes[@]} > 1)); then
    for node in "${nodes[@]}"; do
      if alive "$dir/$node/mariadbd.pid"; then
        most=-1 first=''
        break
      fi
      number=$(galera_position "$dir" "$node")
      number=${number##*:}
      if ((number > most)); then
        most=$number first=$node
      fi
    done
    [[ -z $first ]] || galera_lead "$dir" "$first"
  fi
  for node in "${nodes[@]}"; do
    galera_join "$dir" "$node"
  done
  for node in "${nodes[@]}"; do
    if ! wait_ready "$dir/$node/mariadbd.pid" 120 galera_synced "$dir/$node"; then
      show_log "$dir/$node/mariadb.log"
      return 1
    fi
  done
}

galera_url() { printf 'mysql://owner:%s@127.0.0.1:%s/audiogen' "$(<"$1/owner.password")" "$galera_port"; }

# RabbitMQ, likewise.

rabbits_configure() {
  local dir=$1/$2 node
  mkdir -p "$dir/home"
  secret_in "$1/app.password" >"$dir/app.password"
  [[ -s $dir/home/.erlang.cookie ]] || {
    secret_in "$1/cookie" >"$dir/home/.erlang.cookie"
    chmod 400 "$dir/home/.erlang.cookie"
  }
  rabbitmq_configure "$dir" "$rabbits_port"
  sed -i 's/127\.0\.0\.1/0.0.0.0/' "$dir/rabbitmq.conf"
  {
    echo 'cluster_partition_handling = pause_minority'
    echo 'cluster_formation.peer_discovery_backend = classic_config'
    for node in "${cluster_nodes[@]}"; do
      echo "cluster_formation.classic_config.nodes.$node = audiogen@10.99.0.$node"
    done
  } >>"$dir/rabbitmq.conf"
  # A silent node is missed after so many seconds, instead of a minute.
  echo '[{kernel, [{net_ticktime, 15}]}].' >"$dir/advanced.config"
}

# rabbits_run DIR NODE: its node, and before it its epmd.
rabbits_run() {
  local dir=$1/$2 address=10.99.0.$2 rabbitmq_launch rabbitmq_epmd
  alive "$dir/rabbitmq.pid" && return 0
  rabbits_configure "$1" "$2"
  rabbitmq_command "$dir" "$rabbits_port"
  rabbitmq_launch=("${rabbitmq_launch[@]/RABBITMQ_NODENAME=*/RABBITMQ_NODENAME=audiogen@$address}")
  rabbitmq_launch=("${rabbitmq_launch[@]/RABBITMQ_NODE_IP_ADDRESS=*/RABBITMQ_NODE_IP_ADDRESS=0.0.0.0}")
  rabbitmq_launch=("${rabbitmq_launch[@]/ERL_EPMD_ADDRESS=*/RABBITMQ_USE_LONGNAME=true}")
  rabbitmq_launch=("${rabbitmq_launch[@]/\{127,0,0,1\}/\{10,99,0,$2\}}")
  stop "$dir/epmd.pid" 5
  on_node "$2"
  spawn "$dir/epmd.pid" "$dir/log/epmd.log" "$dir" epmd -port $((rabbits_port + 2))
  wait_ready "$dir/epmd.pid" 20 ip netns exec "node$2" bash -c \
    "exec 3<>/dev/tcp/127.0.0.1/$((rabbits_port + 2))" 2>/dev/null || return 1
  : >"$dir/console.log"
  spawn "$dir/rabbitmq.pid" "$dir/console.log" "$dir" "${rabbitmq_launch[@]}"
}

# rabbits_start DIR [NODE]: NODE, or whoever does not run; returns when they take connections. All together: a node
# that comes back waits for those that were there when it went.
rabbits_start() {
  local dir=$1 node nodes=("${@:2}")
  ((${#nodes[@]} > 0)) || nodes=("${cluster_nodes[@]}")
  for node in "${nodes[@]}"; do
    rabbits_run "$dir" "$node" || return 1
  done
  for node in "${nodes[@]}"; do
    if ! wait_ready "$dir/$node/rabbitmq.pid" 180 grep -q 'completed with' "$dir/$node/console.log"; then
      show_log "$dir/$node/console.log"
      return 1
    fi
  done
}

rabbits_url() { printf 'amqp://app:%s@127.0.0.1:%s/' "$(<"$1/app.password")" "$rabbits_port"; }

# rabbits_control DIR NODE ARGUMENTS…: rabbitmqctl there.
rabbits_control() {
  ip netns exec "node$2" env -i PATH="$PATH" LANG=C.UTF-8 HOME="$1/$2/home" ERL_EPMD_PORT="$((rabbits_port + 2))" \
    /usr/lib/rabbitmq/bin/rabbitmqctl -q --longnames -n "audiogen@10.99.0.$2" "${@:3}"
}

command__nodes() {
  case ${1:-}:$# in
    make:1) nodes_make ;;
    unplug:2) nodes_unplug "$2" ;;
    plug:2) nodes_plug "$2" ;;
    *) die 'usage: _nodes make, or unplug|plug NODE' ;;
  esac
}

command__galera() {
  local DATABASE=mariadb  # Galera is MariaDB's, whatever else runs here.
  local usage='usage: _galera start DIR [NODE], or stop|kill DIR NODE' dir
  (($# == 3)) || [[ ${1:-}:$# == start:2 ]] || die "$usage"
  mkdir -p "$2" && dir=$(cd "$2" && pwd -P)
  case $1 in
    start)
      galera_start "$dir" "${@:3}" || die 'Galera does not start'
      galera_url "$dir" && echo
      ;;
    stop) stop "$dir/$3/mariadbd.pid" 60 ;;
    kill) kill_daemon "$dir/$3/mariadbd.pid" ;;
    *) die "$usage" ;;
  esac
}

command__rabbits() {
  local BROKER=3  # As Debian 12 has it.
  local usage='usage: _rabbits start DIR [NODE], stop|kill DIR NODE, or control DIR NODE ARGUMENTS…' dir
  (($# >= 3)) || [[ ${1:-}:$# == start:2 ]] || die "$usage"
  mkdir -p "$2" && dir=$(cd "$2" && pwd -P)
  case $1 in
    start)
      rabbits_start "$dir" "${@:3}" || die 'RabbitMQ does not start'
      rabbits_url "$dir" && echo
      ;;
    stop) rabbitmq_stop "$dir/$3" ;;
    kill) kill_daemon "$dir/$3/rabbitmq.pid" ;;
    control) rabbits_control "$dir" "${@:3}" ;;
    *) die "$usage" ;;
  esac
}
