#!/usr/bin/env bash
# Proves that every rule of lint.sh can fail: breaks each in a tree of its own and expects its
# message; the same tree without the offence has to pass.
set -euo pipefail

lint=$(cd "$(dirname "$0")" && pwd)/lint.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

# refuses RULE FILE MESSAGE: with the text on stdin in FILE the rule fails with MESSAGE.
refuses() {
  local rule=$1 file=$2 message=$3 output
  mkdir -p "$(dirname "$tree/$file")"
  cat >"$tree/$file"
  if output=$("$lint" "$rule" "$tree" 2>&1); then
    echo "$rule accepts $file"
    failures=1
  elif [[ $output != *"$message"* ]]; then
    printf '%s refuses %s for another reason:\n%s\n' "$rule" "$file" "$output"
    failures=1
  fi
  rm "$tree/$file"
}

accepts() {
  if ! "$lint" "$1" "$tree"; then
    echo "$1 refuses a clean tree"
    failures=1
  fi
}

mkdir -p "$tree"/{api,.ci,common/base,common/domain,tests/unit,tests/support,worker}
cp "$(dirname "$lint")/../../.clang-format" "$tree"
printf '#!/bin/bash\nset -e\n' | tee "$tree/dev" >"$tree/.ci/run"
echo 'add_library(api a.cc)' >"$tree/api/CMakeLists.txt"
printf '%s\n' '#include "common/domain/task.h"' '' 'int f();  // https://x.test commit() is banned' \
  'std::optional<Clock::time_point> g{};' 'std::atomic<Clock::rep> h{Clock::now().time_since_epoch().count()};' \
  >"$tree/api/a.cc"
echo 'foreach(kind unit)' >"$tree/tests/CMakeLists.txt"
echo 'audiogen_test(NAME unit SOURCES a_test.cc)' >"$tree/tests/unit/CMakeLists.txt"
echo 'const char* const kKey = R"({"expires_at":"2031-01-01T00:00:00Z"})";' >"$tree/tests/unit/a_test.cc"

printf '# domain\n\n### Money\n\nCounted in integers.\n' >"$tree/common/domain/README.md"
printf '%s\n' '// RFC 9110 section 14, ISO 11172-3; in a string "https://x.test/a.md" (audio 24 kHz) stays.' \
  '// The reason: README.md, "Money",' '// and common/domain/README.md, "Money" (RFC 8941' '// section 3.3.3).' \
  >"$tree/common/domain/b.h"

# shellcheck disable=SC2016
printf '%s\n' '| `tests/` | `unit/`, `unit/a_test.cc` | `schema/NNNN_x.sql`, `audio/mpeg`, `.local/bin/x`, `/a/b.json` |' \
  >"$tree/README.md"

echo 'add_library(worker a.cc)' >"$tree/worker/CMakeLists.txt"
cp "$(dirname "$lint")/../../common/base/mutex.h" "$tree/common/base"
printf '%s\n' '#include "common/base/mutex.h"' 'struct A {' '  int get();' '  audiogen::Mutex mutex;' \
  '  int x GUARDED_BY(mutex) = 0;' '};' >"$tree/worker/a.h"
printf '%s\n' '#include "worker/a.h"' 'int A::get() {' '  const audiogen::MutexLock lock(mutex);' '  return x;' '}' \
  >"$tree/worker/a.cc"

for rule in layering listed banned format shell locks citations; do
  accepts "$rule"
done

refuses layering common/domain/a.cc 'not for common/domain' <<<'#include "common/store/sql.h"'
refuses layering api/b.cc 'not for api' <<<'#include "worker/job/pool.h"'
refuses layering api/b.cc 'not for api' <<<'#include "wire.h"'
refuses layering worker/chain/a.cc 'not for worker/chain' <<<'#include "worker/job/pool.h"'
refuses layering worker/upkeep/a.cc 'not for worker/upkeep' <<<'#include "worker/job/runner.h"'
refuses layering common/other/a.cc 'no rule says' <<<'#include "common/base/ids.h"'
refuses layering worker/other/a.cc 'no rule says' <<<'#include "common/base/ids.h"'
refuses listed tests/unit/b_test.cc 'never built' <<<'int g();'
refuses listed api/b.cc 'never built' <<<'int g();'
refuses listed tests/fault/CMakeLists.txt 'does not add tests/fault' <<<'add_test(NAME x COMMAND y)'
refuses banned api/b.cc 'START TRANSACTION' <<<'void f() { connection->commit(); }'
refuses banned api/b.cc 'START TRANSACTION' <<<'void f() { connection.setAutoCommit(false); }'
refuses banned api/b.cc 'our own handler' <<<'void f(Http::ResponseWriter writer);'
refuses banned api/b.cc 'our own handler' <<<'Rest::Router router;'
refuses banned tests/unit/b.cc 'with a deadline' <<<'void f() { std::this_thread::sleep_for(1s); }'
refuses banned tests/unit/b.cc 'with a deadline' <<<'void f() { usleep(1); }'
refuses banned tests/e2e/b.cc 'from now' <<<'void f() { make(R"({"expires_at":"2031-01-01T00:00:00Z"})"); }'
refuses banned tests/store/b.cc 'from now' <<<'void f() { create("--expires", "2031-01-01T00:00:00Z"); }'
refuses banned tests/browser/b.mjs 'from now' <<<'const key = { expires_at: "2031-01-01T00:00:00Z" };'
refuses banned api/b.cc 'say "never"' <<<'struct A { Clock::time_point sent_at{}; };'
refuses banned api/b.cc 'say "never"' <<<'struct A { Time opened_at = {}; };'
refuses banned api/b.cc 'say "never"' <<<'class A { std::chrono::steady_clock::time_point logged_at_; };'
refuses banned api/b.cc 'say "never"' <<<'void f() { thread_local Clock::time_point asked; }'
refuses banned api/b.cc 'say "never"' <<<'void f() { static std::atomic<Clock::rep> next{0}; }'
refuses banned api/b.cc 'say "never"' <<<'class A { std::atomic<Clock::rep> due = 0; };'
refuses banned api/b.cc 'say "never"' <<<'class A { std::atomic<Clock::duration> since{}; };'
refuses banned api/b.cc 'say "never"' <<<'struct A { std::atomic<Clock::time_point> asked{}; };'
refuses banned api/b.cc 'say "never"' <<<'struct A { Clock::rep asked_at = 0; };'
refuses banned api/b.cc 'say "never"' <<<'struct A { std::chrono::steady_clock::rep asked_at; };'
refuses banned api/b.cc 'say "never"' <<<'bool f(Instant at) { return at == Instant{}; }'
refuses banned api/b.cc 'say "never"' <<<'bool f(Clock::time_point at) { return at == Clock::time_point(); }'
refuses banned api/b.cc 'say "never"' <<<'struct A { struct B { int json; Clock::time_point at; }; std::map<int, B, std::less<>> drawn; };
int f(A& a) { return a.drawn[1].json; }'
refuses banned schema/0001.sql 'finish it' <<<"-- $(printf TO)DO: an index"
[[ $(clang-format --version) != *' version 14.'* ]] ||
  refuses format api/b.cc 'clang-format' <<<'int  f( ){return 0;}'
# shellcheck disable=SC2016
refuses shell tests/x.sh 'SC2086' <<<'#!/bin/bash
rm $1'
refuses locks api/b.h 'use Mutex' <<<'class A { std::mutex mutex_; };'
refuses locks api/b.cc 'use Mutex' <<<'void f() { const std::scoped_lock lock(mutex); }'
refuses locks api/b.h 'mutex_: say what it guards' <<<'class A { Mutex mutex_; int x_ = 0; };'
refuses locks worker/b.cc 'requires holding mutex' <<<'#include "worker/a.h"
int f(A& a) { return a.x; }  // As in MutexLock lock(a.mutex);'
refuses citations common/domain/c.h 'DESIGN' <<<'// The order of checks (DESIGN 1).'
refuses citations common/domain/c.h 'reliability 9' <<<'// The books and their rules (reliability
// 9), each one query.'
refuses citations common/domain/c.h 'reliability F3' <<<'int f();  // Never without reading (reliability F3).'
refuses citations worker/c.cc '(audio 2.1)' <<<'// Constant bit rates (audio 2.1).'
refuses citations worker/c.cc '(providers 3.5 a)' <<<'// Seed Audio (providers 3.5 a).'
refuses citations worker/c.cc 'interface 8' <<<'// Limits (interface 8, and more).'
refuses citations api/c.cc 'interface 2' <<<'// The resource of interface 2.1-2.6.'
refuses citations worker/c.cc '(audio 2.1-2.6)' <<<'// Formats (audio 2.1-2.6).'
refuses citations worker/c.cc '(F2)' <<<'// It forces REPEATABLE READ (F2).'
refuses citations schema/0001.sql 'section 9' <<<'-- The rules of section 9.'
refuses citations tests/x.sh 'rows 9 of the' <<<'# rows 9 of the plan'
refuses citations tests/x.sh 'issue 4' <<<'true  # as issue 4 asks'
refuses citations worker/c.h 'plan.md: no such page' <<<'// See docs/plan.md for why.'
refuses citations worker/README.md 'gone.md: no such page' <<<'Read [this](../gone.md) first.'
refuses citations worker/c.h 'common/domain/gone.h: not here' <<<'// As in common/domain/gone.h.'
# shellcheck disable=SC2016
refuses citations CONTRIBUTING.md 'tests/gone/: not here' <<<'Tests lie in `tests/unit/` and `tests/gone/`.'
# shellcheck disable=SC2016
refuses citations common/README.md 'domain/gone.h: not here' <<<'Rules: `domain/README.md`, `domain/gone.h`.'
# shellcheck disable=SC2016
refuses citations tests/fault/README.md 'no such test' <<<'By `Broker.IsNeverAway`.'
# shellcheck disable=SC2016
refuses citations tests/fault/README.md 'no such fault' <<<'By `Link/NothingEverBreaks`.'
refuses citations common/domain/c.h 'has no "Leases"' <<<'// Only its clock counts (README.md,
// "Leases").'
refuses compose compose.yaml 'no service worker' <<<'services: {api: {image: x}}'
# shellcheck disable=SC2016
refuses compose compose.yaml 'required (:?)' <<<'services: {api: {image: "${IMAGE}"}}'
# breaks SED MESSAGE: our own file, changed by SED.
breaks() { refuses compose compose.yaml "$2" < <(sed -E "$1" "$(dirname "$lint")/../../compose.yaml"); }
breaks 's/^  read_only: true//' 'database: its root can be written to'
breaks 's/cap_drop: .*/cap_drop: [NET_RAW]/' 'worker: has rights of root'
breaks 's/no-new-privileges:true/x/' 'api-1: may gain rights'
breaks 's/user: rabbitmq//' 'broker: runs as root'
breaks 's/mysql:9.7/mysql:latest/' 'database: the image has to be pinned'
breaks 's/(memory: 2g), pids: 512/\1/' 'worker: no limits'
breaks 's/    hostname: broker.*/    ports: ["5672:5672"]/' 'broker: is not behind nginx'
breaks 's/"127.0.0.1:(.\{GRAFANA_PORT)/"\1/' 'grafana: is not behind nginx'
breaks 's/SMTP_URL_FILE:.*/SMTP_URL: smtp:\/\/ann:secret@x/' 'SMTP_URL has to be a file'
breaks 's/secrets: .tls_certificate, tls_key./secrets: [tls_key]/' 'tls_certificate is used by nobody'
breaks 's/secrets: .database_client, database_users./secrets: [database_users]/; s/, database_client\]/]/' \
  'database_client is used by nobody'
breaks 's/(secrets: .database_worker_url, )amqp_url, /\1/' 'worker: AMQP_URL_FILE: it does not have the secret amqp_url'

exit "$failures"
