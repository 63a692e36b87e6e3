#!/usr/bin/env bash
# package.sh BUILD WORK: the Debian package that CPack makes in BUILD (of the preset `release`), from its making to its
# purge: lintian, then in a fresh Debian of this machine's release in WORK (debootstrap) installed, set up as README.md says,
# its programs run as their units say, upgraded, removed and purged. `./dev test --all` runs it; as root, with the package registry in reach,
# and a database and a broker of its own. Systemd itself does not run: what a unit says, as_unit() does.
set -euo pipefail
export LC_ALL=C.UTF-8
umask 022  # The package's own folders are what this gives.

((EUID == 0)) || {
  echo 'package.sh: only root may install packages in another root folder'
  exit 1
}
# Whatever is mounted is gone with this script.
[[ ${1:-} == --mounted ]] || exec unshare --mount --propagation private "$0" --mounted "$@"
shift

source=$(cd "$(dirname "$0")/../.." && pwd -P)
build=$(cd "$1" && pwd -P)
mkdir -p "$2"
work=$(cd "$2" && pwd -P)
root=$work/root
pids=()
port=${PACKAGE_TEST_PORT:-28900}  # And the nine after it.
started=0

finish() {
  local pid
  for pid in "${pids[@]}"; do
    kill -KILL "$pid" 2>/dev/null || true
  done
  "$source/dev" _mariadb kill "$work/mariadb" "$port"
  "$source/dev" _rabbitmq stop "$work/rabbitmq" $((port + 2))
}
trap finish EXIT

step() {
  ((!started)) || echo "  ($((SECONDS - started)) s)"
  started=$SECONDS
  echo "$*"
}
fail() {
  tail -n 5 "$work"/audio-*.log 2>/dev/null || true
  echo "package.sh: $*"
  exit 1
}
await() {
  local end=$((SECONDS + 60))
  until "$@"; do
    ((SECONDS < end)) || fail "not in a minute: $*"
    sleep 0.1
  done
}
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }
install() { inside apt-get -qq -y --no-install-recommends -o Dpkg::Options::=--force-confold install "$@" >"$work/apt.log" 2>&1 ||
  { cat "$work/apt.log"; fail "apt-get install $*"; }; }

# make VERSION: the package, as audiogen_VERSION_ARCHITECTURE.deb in WORK.
make() { (cd "$build" && cpack -G DEB -B "$work" -D "CPACK_PACKAGE_VERSION=$1" >"$work/cpack.log" 2>&1) || {
  cat "$work/cpack.log"
  fail 'cpack'
}; }

# as_unit UNIT [INSTANCE]: starts its program as its unit says: user, settings, credentials, rights. `pid` is set to it. Of
# two settings the later one counts, and what EnvironmentFile= reads goes before Environment= (systemd.exec(5)).
as_unit() {
  local name=$1 unit=$root/usr/lib/systemd/system/$1.service credentials=/run/credentials/$1 line command environment=()
  mkdir -p "$root$credentials"
  while read -r line; do
    cp "$root${line#*:}" "$root$credentials/${line%%:*}"
  done < <(sed -n 's/^LoadCredential=//p' "$unit")
  chown -R "$(inside id -u audiogen)" "$root$credentials"
  chmod -R go= "$root$credentials"
  while read -r line; do
    line=${line//%d/$credentials}
    environment+=("${line//%i/${2:-}}")
  done < <(sed -n 's/^Environment=//p' "$unit" | tr ' ' '\n')
  while read -r line; do
    while read -r line; do
      environment+=("$line")
    done < <(grep -E '^[A-Z]' "$root$line")
  done < <(sed -n 's/^EnvironmentFile=//p' "$unit")
  read -ra command < <(sed -n 's/^ExecStart=//p' "$unit")
  environment+=("NOTIFY_SOCKET=$notify")
  chroot "$root" setpriv --reuid=audiogen --regid=audiogen --clear-groups --bounding-set=-all --inh-caps=-all \
    --no-new-privs env -i "${environment[@]}" "${command[@]}" >>"$work/$name.log" 2>&1 &
  pid=$!
  pids+=("$pid")
}

# What a service manager hears: each message a line of WORK/heard.
notify=@audiogen-package-$$
hear() {
  python3 -c '
import socket, sys
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind("\0" + sys.argv[1][1:])
print("listening", flush=True)
while True:
    print(manager.recv(64).decode(), flush=True)' "$notify" >"$work/heard" &
  pids+=($!)
  disown $!  # Bash would comment on its end.
  await heard listening 1
}
heard() { [[ $(grep -c "^$1\$" "$work/heard") == "$2" ]]; }

stop() {
  kill -TERM "$1"
  wait "$1" || fail "it did not end as it should: $1"
}

api=http://127.0.0.1:$((port + 5))
ask() { curl --silent --noproxy '*' --max-time 10 --header "Authorization: Bearer $key" "$@"; }
is_done() { [[ $(ask "$api/api/v1/audio/generations/$task" | jq -r .status) == succeeded ]]; }
# By the admin's own user of the database, as root: only root can read credentials. With the settings of the API, by whose
# BRAND it makes keys.
admin() {
  # shellcheck disable=SC2016 # For the shell there.
  inside env DATABASE_URL_FILE=/etc/audiogen/credentials/admin_database_url sh -c \
    'set -a && . /etc/audiogen/common.env && . /etc/audiogen/api.env && set +a && exec audio-api admin "$@"' sh "$@"
}

speak() {
  task=$(ask --header 'Content-Type: application/json' --data '{"model":"acme-audio-1.0","prompt":"Packed and shipped."}' \
    "$api/api/v1/audio/generations" | jq -r .id)
  await is_done
  ask --fail --output "$work/sound" "$(ask "$api/api/v1/audio/generations/$task" | jq -r .output.url)"
  [[ -s $work/sound ]] || fail 'no sound'
}

run_all() {
  local before
  before=$(grep -c '^READY=1$' "$work/heard" || true)
  as_unit audio-api
  api_pid=$pid
  as_unit audio-worker@ $((port + 7))
  worker_pid=$pid
  await heard READY=1 $((before + 2))
}

stop_all() {
  local before
  before=$(grep -c '^STOPPING=1$' "$work/heard" || true)
  stop "$api_pid"
  stop "$worker_pid"
  heard STOPPING=1 $((before + 2)) || fail 'nobody said that it stops'
}

step 'Making the package, twice'
rm -rf "$work"/*.deb "$root"
make 1.0.0
make 1.0.1
deb=$(cd "$work" && ls audiogen_1.0.0_*.deb)
lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$work/$deb" ||
  fail 'lintian found something'

# The package is for the release that it was built on.
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
[[ $suite ]] || fail 'of which Debian release is this machine?'
step "Laying a Debian ($suite)"
debootstrap --variant=minbase "$suite" "$root" http://deb.debian.org/debian >"$work/debootstrap.log" 2>&1 ||
  fail "see $work/debootstrap.log"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
mount --bind /proc "$root/proc"
mount --bind /dev "$root/dev"
cp "$work"/*.deb "$root/"

step 'Installing'
install "/$deb"
[[ $(stat -c '%a %U' "$root/etc/audiogen/api.env") == '640 root' ]] || fail 'who may read settings?'
[[ $(stat -c %a "$root/etc/audiogen/credentials") == 700 ]] || fail 'who may read credentials?'
[[ $(inside stat -c '%a %U' /var/lib/audiogen) == '700 audiogen' ]] || fail 'who may hear the audio?'

step 'Setting up'
url=$("$source/dev" _mariadb start "$work/mariadb" "$port")
amqp=$("$source/dev" _rabbitmq start "$work/rabbitmq" $((port + 2)))
for user in owner api worker admin; do
  printf 'mysql://%s:%s@127.0.0.1:%s/audiogen\n' "$user" "$(<"$work/mariadb/$user.password")" "$port" \
    >"$root/etc/audiogen/credentials/${user}_database_url"
done
echo "$amqp" >"$root/etc/audiogen/credentials/amqp_url"
openssl rand -hex 32 >"$root/etc/audiogen/credentials/blob_signing_key"
sed -i 's/^#BRAND=.*/BRAND=acme/' "$root/etc/audiogen/common.env"
sed -i "s/^LISTEN=.*/LISTEN=127.0.0.1:$((port + 5))/" "$root/etc/audiogen/api.env"
echo "OPS_LISTEN=127.0.0.1:$((port + 6))" >>"$root/etc/audiogen/api.env"
[[ $url == mysql://* ]]
owner() { inside env DATABASE_URL_FILE=/etc/audiogen/credentials/owner_database_url audio-api "$@"; }
owner migrate >/dev/null
owner grants --api api@127.0.0.1 --worker worker@127.0.0.1 --admin admin@127.0.0.1 >/dev/null
admin user create --email ann@example.com --plan paid >/dev/null
admin credits grant --user ann@example.com --credits 1000 --kind purchase --reference package >/dev/null
key=$(admin key create --user ann@example.com --name package --json | jq -r .key)

step 'Running'
hear
run_all
speak
as_unit audio-audit
wait "$pid" || fail "the audit: $(cat "$work/audio-audit.log")"
stop_all

step 'Upgrading'
install "/${deb/1.0.0/1.0.1}"
grep -q "^OPS_LISTEN=127.0.0.1:$((port + 6))$" "$root/etc/audiogen/api.env" || fail 'an upgrade loses settings'
inside dpkg-query --status audiogen | grep -qx 'Version: 1.0.1' || fail 'not upgraded'
run_all
is_done || fail 'what was made before the upgrade is gone'
speak
stop_all

step 'Removing and purging'
inside apt-get -qq -y remove audiogen >"$work/apt.log" 2>&1 || fail "see $work/apt.log"
[[ ! -e $root/usr/bin/audio-api && -e $root/etc/audiogen/api.env ]] || fail 'removed too much or too little'
inside apt-get -qq -y purge audiogen >"$work/apt.log" 2>&1 || fail "see $work/apt.log"
[[ ! -e $root/etc/audiogen/api.env ]] || fail 'settings are left'
[[ -s $root/etc/audiogen/credentials/blob_signing_key ]] || fail 'a key is gone with which kept audio is opened'
find "$root/var/lib/audiogen/blobs" -type f | grep -q . || fail "people's audio is gone"
left=$(inside find / -xdev -path /proc -prune -o -name 'audiogen*' -print -o -path '*/audio-*' -print |
  grep -vE '^/(var/lib/audiogen|etc/audiogen|run/credentials|audiogen_1|var/cache|var/lib/dpkg)' || true)
[[ -z $left ]] || fail "left behind: $left"

step 'The package can be shipped'
