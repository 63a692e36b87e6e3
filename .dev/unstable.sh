# shellcheck shell=bash
# MySQL and a newer RabbitMQ than Debian 12 has: DATABASE=mysql, BROKER=4. Debian's unstable suite is laid into
# a folder, and programs run in it (chroot), in a mount namespace of their own: nothing stays mounted.

unstable=$state/unstable
readonly unstable_packages=(mysql-server-core mysql-client-core rabbitmq-server libfaketime)  # The last one for tests.

# kind_of DIR CHOSEN DEFAULT…: what runs from DIR: what is chosen, else what ran there last, else the
# default, the first of those that there are.
kind_of() {
  local kind other
  kind=${2:-$(cat "$1/kind" 2>/dev/null || echo "$3")}
  for other in "${@:3}"; do
    [[ $kind != "$other" ]] || {
      echo "$kind"
      return 0
    }
  done
  die "DATABASE is mariadb or mysql, BROKER 3 or 4; not $kind"
}
database_kind() { kind_of "$1" "${DATABASE:-}" mariadb mysql; }
# For people.
database_name() { [[ $(database_kind "$1") == mysql ]] && echo MySQL || echo MariaDB; }
broker_kind() { kind_of "$1" "${BROKER:-}" 3 4; }

# becomes DIR KIND DEFAULT STOP…: from now on KIND runs from DIR; STOP ends what does now, when that is another.
becomes() {
  local dir=$1 kind=$2 was
  was=$(cat "$dir/kind" 2>/dev/null || echo "$3")
  [[ $was == "$kind" ]] || "${@:4}"
  echo "$kind" >"$dir/kind"
}

# Only root may run programs in another root folder.
is_root() { ((EUID == 0)); }

lay_unstable() {
  [[ $(cat "$unstable/.complete" 2>/dev/null) != "${unstable_packages[*]}" ]] || return 0
  is_root || die 'DATABASE=mysql and BROKER=4 run in a folder with a root of its own: be root'
  need_packages debootstrap
  step 'Laying MySQL and RabbitMQ of Debian unstable into .local/unstable'
  rm -rf "$unstable"
  mkdir -p "$state/logs"
  (
    umask 022
    # What it mounts meanwhile is gone with it.
    logged "$state/logs/unstable.log" unshare --mount --propagation private debootstrap --variant=minbase \
      "--include=$(IFS=,; echo "${unstable_packages[*]}")" \
      unstable "$unstable" http://deb.debian.org/debian
  ) || exit 1
  echo '127.0.0.1 localhost' >"$unstable/etc/hosts"
  echo "${unstable_packages[*]}" >"$unstable/.complete"
  step_done
}

# in_unstable DIR COMMAND…: sets `command_there` to what runs it there, with DIR under its own name.
in_unstable() {
  # shellcheck disable=SC2016 # For the shell there.
  local script='root=$1 dir=$2; shift 2
    mount --bind /proc "$root/proc" && mount --bind /dev "$root/dev" && mkdir -p "$root$dir" &&
      mount --bind "$dir" "$root$dir" &&
      exec chroot "$root" sh -c '"'"'cd "$0" && exec "$@"'"'"' "$dir" "$@"'
  command_there=(unshare --mount --propagation private sh -c "$script" sh "$unstable" "$@")
}

mysql_configure() {
  local dir=$1 port=$2 owner
  mkdir -p "$dir/tmp"
  owner=$(secret_in "$dir/owner.password")
  # The socket is relative to the data folder, as MariaDB's. Redo log and buffer pool are MariaDB's, too;
  # the binary log is on, as MySQL has it.
  cat >"$dir/my.cnf" <<END
[mysqld]
user=root
datadir=$dir/data-mysql
socket=../s
pid-file=$dir/mariadbd.own-pid
tmpdir=$dir/tmp
secure-file-priv=
mysqlx=OFF
bind-address=127.0.0.1
port=$port
skip-name-resolve
character-set-server=utf8mb4
collation-server=utf8mb4_bin
transaction-isolation=READ-COMMITTED
innodb_buffer_pool_size=256M
innodb_redo_log_capacity=256M
innodb_flush_log_at_trx_commit=1
max_connections=300
init-file=$dir/init.sql
END
  server_files "$dir" "$owner" 'DROP USER IF EXISTS root@localhost;'  # It has no password.
}

mysql_install() {
  local dir=$1 command_there
  [[ ! -d $dir/data-mysql ]] || return 0
  rm -rf "$dir/data.new"
  in_unstable "$dir" /usr/sbin/mysqld --no-defaults --initialize-insecure --user=root \
    "--datadir=$dir/data.new" --secure-file-priv=
  "${command_there[@]}" >"$dir/install.log" 2>&1 </dev/null || return 1
  mv "$dir/data.new" "$dir/data-mysql"
}

# mysql_clients DIR: MySQL's own clients, as programs in DIR. They read files anywhere, so they run with unstable's
# libraries, but not in its folder.
mysql_clients() {
  local name loader
  loader=$(echo "$unstable"/usr/lib/*/ld-linux-*.so.*)
  mkdir -p "$1"
  for name in mysql mysqldump; do
    printf '#!/bin/bash\nexec %q --library-path %q %q "$@"\n' "$loader" "${loader%/*}" "$unstable/usr/bin/$name" >"$1/$name"
    chmod 700 "$1/$name"
  done
}

# As mariadb_start.
mysql_start() {
  local dir=$1 port=$2 command_there
  if ! alive "$dir/mariadbd.pid"; then
    lay_unstable
    mysql_configure "$dir" "$port"
    if ! mysql_install "$dir"; then
      show_log "$dir/install.log"
      return 1
    fi
    # A killed server leaves this with its process number, which by now may be somebody else's: then none would start.
    rm -f "$dir/s.lock"
    in_unstable "$dir" /usr/sbin/mysqld "--defaults-file=$dir/my.cnf"
    spawn "$dir/mariadbd.pid" "$dir/mariadb.log" "$dir/data-mysql" "${command_there[@]}"
  fi
  wait_ready "$dir/mariadbd.pid" 120 mariadb_answers "$dir" && return 0
  show_log "$dir/mariadb.log"
  return 1
}
