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

mkdir -p "$tree"/{api,.ci,common/domain,tests/unit,tests/support}
cp "$(dirname "$lint")/../../.clang-format" "$tree"
printf '#!/bin/bash\nset -e\n' | tee "$tree/dev" >"$tree/.ci/run"
echo 'add_library(api a.cc)' >"$tree/api/CMakeLists.txt"
printf '#include "common/domain/task.h"\n\nint f();  // https://x.test commit() is banned\n' \
  >"$tree/api/a.cc"
echo 'foreach(kind unit)' >"$tree/tests/CMakeLists.txt"
echo 'audiogen_test(NAME unit SOURCES a_test.cc)' >"$tree/tests/unit/CMakeLists.txt"
echo 'int g();' >"$tree/tests/unit/a_test.cc"

for rule in layering listed banned format shell; do
  accepts "$rule"
done

refuses layering common/domain/a.cc 'not for common/domain' <<<'#include "common/store/sql.h"'
refuses layering api/b.cc 'not for api' <<<'#include "worker/pool.h"'
refuses layering api/b.cc 'not for api' <<<'#include "wire.h"'
refuses layering common/other/a.cc 'no rule says' <<<'#include "common/base/ids.h"'
refuses listed tests/unit/b_test.cc 'never built' <<<'int g();'
refuses listed api/b.cc 'never built' <<<'int g();'
refuses listed tests/fault/CMakeLists.txt 'does not add tests/fault' <<<'add_test(NAME x COMMAND y)'
refuses banned api/b.cc 'START TRANSACTION' <<<'void f() { connection->commit(); }'
refuses banned api/b.cc 'START TRANSACTION' <<<'void f() { connection.setAutoCommit(false); }'
refuses banned api/b.cc 'our own handler' <<<'void f(Http::ResponseWriter writer);'
refuses banned api/b.cc 'our own handler' <<<'Rest::Router router;'
refuses banned tests/unit/b.cc 'with a deadline' <<<'void f() { std::this_thread::sleep_for(1s); }'
refuses banned tests/unit/b.cc 'with a deadline' <<<'void f() { usleep(1); }'
refuses banned schema/0001.sql 'finish it' <<<"-- $(printf TO)DO: an index"
refuses format api/b.cc 'clang-format' <<<'int  f( ){return 0;}'
# shellcheck disable=SC2016
refuses shell tests/x.sh 'SC2086' <<<'#!/bin/bash
rm $1'
refuses compose compose.yaml 'no service worker' <<<'services: {api: {image: x}}'
# shellcheck disable=SC2016
refuses compose compose.yaml 'required (:?)' <<<'services: {api: {image: "${IMAGE}"}}'

exit "$failures"
