#!/usr/bin/env bash
# Makes what compose.yaml reads secrets from: secrets.sh [FOLDER] (.secrets beside compose.yaml). Files that are there
# stay as they are, so run it again after an update, or after you deleted a password to have another one. What you bring
# yourself (compose.yaml, at its top) takes the place of one: `install -m 444 FILE .secrets/NAME`. Nobody but root may write
# into one, nor may containers read one that only you may read.
#
# To change the password of a database user, delete database_USER_password and run it again; then
# `docker compose up --detach --force-recreate`. The database's and the broker's own (database_root_password,
# broker_password) are read when their volumes are made, and never again: change those there first.
#
# Nobody but you can enter the folder. In it everybody may read, because in containers the users have other numbers and
# files are mounted as they are. So are those of nginx/ and observe/ beside this script: what only you may read of them,
# as after a checkout under umask 077, it opens for everybody, and says so. What others may read, too, stays as it is:
# somebody has chosen who they are.
set -euo pipefail
umask 077

opened=$(find "$(dirname "$0")"/{nginx,observe} ! -perm -040 ! -perm -004 -print -exec chmod a+rX {} +)
[[ -z $opened ]] || printf 'Readable for everybody now:\n%s\n' "$opened"
folder=${1:-$(dirname "$0")/../.secrets}
mkdir -p "$folder"
cd "$folder"
chmod 700 .

# keep FILE [PASSWORD…]: the text on stdin in FILE, when it is not there yet, or older than a password in it.
keep() {
  local file=$1 password old=0
  shift
  [[ -e $file ]] || old=1
  for password; do
    [[ ! $password -nt $file ]] || old=1
  done
  if ((!old)); then
    cat >/dev/null  # Else whoever writes to us fails.
    return
  fi
  rm -f "$file.new"  # Of a run that was interrupted: nobody but root may write to what is read-only.
  cat >"$file.new"
  chmod 444 "$file.new"
  mv -f "$file.new" "$file"
}

random() { od -An -v -tx1 -N24 /dev/urandom | tr -d ' \n'; }

for name in database_{root,api,worker,admin}_password broker_password grafana_password; do
  random | keep "$name"
done
od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n' | keep blob_signing_key

printf '[client]\nuser=root\npassword=%s\n' "$(<database_root_password)" |
  keep database_client database_root_password
printf 'mysql://root:%s@database:3306/audiogen\n' "$(<database_root_password)" |
  keep database_owner_url database_root_password
for user in api worker admin; do
  printf 'mysql://%s:%s@database:3306/audiogen\n' "$user" "$(<"database_${user}_password")" |
    keep "database_${user}_url" "database_${user}_password"
done
for user in api worker admin; do
  printf "CREATE USER IF NOT EXISTS %s@'%%';\nALTER USER %s@'%%' IDENTIFIED BY '%s';\n" \
    "$user" "$user" "$(<"database_${user}_password")"
done | keep database_users database_{api,worker,admin}_password
printf 'default_user = app\ndefault_pass = %s\n' "$(<broker_password)" |
  keep broker_user broker_password
printf 'amqp://app:%s@broker:5672/\n' "$(<broker_password)" | keep amqp_url broker_password

# What may stay empty: then it is not set. The chain of providers names their keys PROVIDER_KEY_1 and PROVIDER_KEY_2.
for name in blob_signing_key_old cdn_signing_key cdn_signing_key_old smtp_url oidc_client_secret ops_token \
  aws_secret_access_key aws_session_token provider_key_1 provider_key_2 tls_certificate tls_key; do
  keep "$name" </dev/null
done
echo '{"providers": [{"name": "local", "kind": "local"}]}' | keep providers
