# shellcheck shell=bash
# Debian's packages and Node: which, and how they are installed.

readonly database_packages=(mariadb-server)
readonly broker_packages=(rabbitmq-server)
readonly runtime_packages=(ca-certificates curl espeak-ng-data jq)
readonly build_packages=(
  ccache cmake flite1-dev g++ ninja-build pkg-config
  libargon2-dev libboost-dev libcld2-dev libcli11-dev libcurl4-openssl-dev libebur128-dev libespeak-ng-dev
  libfmt-dev libjemalloc-dev libkakasi2-dev libmpg123-dev libmysqlcppconn-dev libopusenc-dev libpistache-dev libpng-dev
  librabbitmq-dev libseccomp-dev libsndfile1-dev libsoundtouch-dev libsoxr-dev libspdlog-dev
  libssl-dev libturbojpeg0-dev libutf8proc-dev libwebp-dev libxxhash-dev prometheus-cpp-dev rapidjson-dev)
readonly test_packages=(
  clang clang-format ffmpeg libbenchmark-dev libclang-rt-dev libfaketime libgmock-dev libgtest-dev
  nginx-light openssl opus-tools pocketsphinx pocketsphinx-en-us prometheus prometheus-alertmanager prometheus-blackbox-exporter python3-jsonschema python3-yaml shellcheck systemd tmux)
readonly browser_packages=(chromium fonts-dejavu-core)  # For the tests of the console.

readonly package_packages=(debootstrap dpkg-dev lintian)  # For the test of the Debian package.

readonly node_packages=(nodejs npm)  # Where there is none of at least this version:
readonly node_version=18

# The daemons of all these, and of what they depend on, as their units are named.
readonly daemons=(
  epmd mariadb nginx prometheus prometheus-alertmanager prometheus-blackbox-exporter rabbitmq-server)

policy_hook=/usr/sbin/policy-rc.d
unit_links=/etc/systemd/system

# Which of them start with the machine.
enabled_units() {
  local unit
  find "$unit_links" -path '*.wants/*' -printf '%f\n' 2>/dev/null | sort -u | while read -r unit; do
    [[ " ${daemons[*]} " != *" ${unit%.*} "* ]] || echo "$unit"
  done
}

# Runs as root, through declare. Packages that hold daemons would start them, now and with the machine: a hook refuses
# the one, and those that they have enabled for the other are disabled again.
apt_install() {
  # Not local, for what comes after the end. A machine that had no systemd starts nothing by it.
  own_hook=0 systemctl=$(command -v systemctl || true) enabled=$(enabled_units)
  trap leave_no_service EXIT
  if [[ ! -e $policy_hook ]]; then
    own_hook=1
    printf '#!/bin/sh\nexit 101\n' >"$policy_hook"
    chmod 755 "$policy_hook"
  fi
  umask 022
  export DEBIAN_FRONTEND=noninteractive
  local get=(apt-get -y -o DPkg::Lock::Timeout=300)
  local install=("${get[@]}" install --no-install-recommends)
  # Lists are fetched only when they are missing, or so old that a file they name is gone.
  if "${install[@]}" --simulate "$@" >/dev/null 2>&1 && "${install[@]}" "$@"; then
    return 0
  fi
  "${get[@]}" update && "${install[@]}" "$@"
}

leave_no_service() {
  local unit
  ((!own_hook)) || rm -f "$policy_hook"
  [[ -n $systemctl ]] || return 0
  for unit in $(comm -13 <(echo "$enabled") <(enabled_units)); do
    if "$systemctl" --quiet disable "$unit"; then
      echo "Disabled: $unit"
    fi
  done
}

need_packages() {
  command -v dpkg-query >/dev/null || die 'this script installs Debian packages; use Debian 12 or 13'
  local installed missing=() package
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for package; do
    [[ $'\n'$installed$'\n' == *$'\n'"$package installed"$'\n'* ]] || missing+=("$package")
  done
  ((${#missing[@]} > 0)) || return 0
  local as_root=()
  if ((EUID != 0)); then
    if ! sudo -n true 2>/dev/null && ! { [[ -t 0 ]] && sudo -v; }; then
      die "packages are missing, and this user may not install them. As root, run:
  apt-get update && apt-get install --no-install-recommends ${missing[*]}"
    fi
    as_root=(sudo -n)
  fi
  make_state
  step "Installing packages (${#missing[@]})"
  [[ -t 2 ]] || say "$step_name …"
  logged "$state/logs/install.log" "${as_root[@]}" \
    bash -c "set -e
      $(declare -p daemons policy_hook unit_links; declare -f enabled_units leave_no_service apt_install)
      apt_install \"\$@\"" _ "${missing[@]}"
  grep '^Disabled: ' "$state/logs/install.log" >&2 || true
  step_done
}

# What has to be installed to have Node and npm: nothing where PATH has them already (Debian's npm
# and other builds of Node exclude each other). Dies when that Node is too old: it would still be
# found before Debian's.
missing_node_packages() {
  local version
  if ! version=$(node --version 2>/dev/null) || ! command -v npm >/dev/null; then
    printf '%s\n' "${node_packages[@]}"
    return
  fi
  version=${version#v}
  ((${version%%.*} >= node_version)) ||
    die "node is of version $version, needed is $node_version; take it out of PATH to have Debian's"
}
