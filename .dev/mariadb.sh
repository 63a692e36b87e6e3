# shellcheck shell=bash
# A private MariaDB in a folder; with DATABASE=mysql MySQL.

# Users: `owner` may do everything (migrations, tests); the others, one for each program, what
# `audio-api grants` gives them.
readonly database_users=(api worker admin)

# mariadb_users DIR: statements that make them, as often as wanted. Local connections by socket
# count as localhost, by TCP as 127.0.0.1.
mariadb_users() {
  local user host password
  for user in owner "${database_users[@]}"; do
    password=$(secret_in "$1/$user.password")
    for host in localhost 127.0.0.1; do
      echo "CREATE USER IF NOT EXISTS $user@'$host';"
      echo "ALTER USER $user@'$host' IDENTIFIED BY '$password';"
    done
  done
  echo "GRANT ALL PRIVILEGES ON *.* TO owner@localhost, owner@'127.0.0.1' WITH GRANT OPTION;"
  echo "DROP USER IF EXISTS app@localhost, app@'127.0.0.1';"  # Of releases with one for all.
}

# server_files DIR OWNER_PASSWORD [STATEMENT…]: what either kind of server has besides its own settings.
server_files() {
  local dir=$1 owner=$2
  shift 2
  # Made by tests only.
  [[ ! -s $dir/tls/server.pem ]] ||
    printf '%s\n' "ssl-ca=$dir/tls/ca.pem" "ssl-cert=$dir/tls/server.pem" \
      "ssl-key=$dir/tls/server.key" >>"$dir/my.cnf"
  # Run by the server at each start before it listens: no moment with an open account, and a start
  # that was cut short heals.
  {
    echo 'CREATE DATABASE IF NOT EXISTS audiogen;'
    mariadb_users "$dir"
    printf '%s\n' "$@"
  } >"$dir/init.sql"
  printf '[client]\nuser=owner\npassword=%s\nsocket=../s\n' "$owner" >"$dir/client.cnf"
}

mariadb_configure() {
  local dir=$1 port=$2 owner
  mkdir -p "$dir/tmp"
  owner=$(secret_in "$dir/owner.password")
  # The socket is relative to the data folder, so a deep checkout does not exceed sun_path.
  cat >"$dir/my.cnf" <<END
[mariadbd]
datadir=$dir/data
socket=../s
pid-file=$dir/mariadbd.own-pid
tmpdir=$dir/tmp
bind-address=127.0.0.1
port=$port
skip-name-resolve
character-set-server=utf8mb4
collation-server=utf8mb4_bin
transaction-isolation=READ-COMMITTED
innodb_buffer_pool_size=256M
innodb_log_file_size=128M
innodb_flush_log_at_trx_commit=1
max_connections=300
idle_transaction_timeout=60
tcp_keepalive_time=10
tcp_keepalive_interval=5
tcp_keepalive_probes=3
init-file=$dir/init.sql
END
  server_files "$dir" "$owner"
}

mariadb_install() {
  local dir=$1
  [[ ! -d $dir/data ]] || return 0
  rm -rf "$dir/data.new"
  # Root by socket only, hence no password-less account on TCP.
  mariadb-install-db --defaults-file="$dir/my.cnf" --datadir="$dir/data.new" "${@:2}" \
    --auth-root-authentication-method=socket --skip-test-db >"$dir/install.log" 2>&1 || return 1
  mv "$dir/data.new" "$dir/data"
}

mariadb_client() {
  local dir=$1 data=data
  shift
  [[ $(database_kind "$dir") != mysql ]] || data=data-mysql
  (cd "$dir/$data" && exec mariadb --defaults-file=../client.cnf --batch --skip-column-names "$@")
}

mariadb_answers() { mariadb_client "$1" --execute 'SELECT 1' >/dev/null 2>&1; }

# mariadb_start DIR PORT: installs at the first use, returns when it answers.
mariadb_start() {
  local dir=$1 port=$2 user=() kind
  kind=$(database_kind "$dir") || return 1
  becomes "$dir" "$kind" mariadb stop "$dir/mariadbd.pid" 60
  if [[ $kind == mysql ]]; then
    mysql_start "$@"
    return $?
  fi
  ((EUID != 0)) || user=(--user=root)  # Else it refuses to run as root.
  if ! alive "$dir/mariadbd.pid"; then
    mariadb_configure "$dir" "$port"
    if ! mariadb_install "$dir" "${user[@]}"; then
      show_log "$dir/install.log"
      return 1
    fi
    spawn "$dir/mariadbd.pid" "$dir/mariadb.log" "$dir/data" \
      mariadbd --defaults-file="$dir/my.cnf" "${user[@]}"
  fi
  wait_ready "$dir/mariadbd.pid" 60 mariadb_answers "$dir" && return 0
  show_log "$dir/mariadb.log"
  return 1
}

# mariadb_url DIR PORT USER: by socket where its path fits into sun_path.
mariadb_url() {
  local socket=$1/s
  printf 'mysql://%s:%s@127.0.0.1:%s/audiogen' "$3" "$(<"$1/$3.password")" "$2"
  ((${#socket} >= 107)) || printf '?socket=%s' "$socket"
}
