#!/usr/bin/env bash
# The style rules that matter, as tests: lint.sh RULE [ROOT] prints what breaks RULE in the tree
# under ROOT and fails if there is anything. proof.sh shows that each rule can fail.
set -euo pipefail
export LC_ALL=C.UTF-8

bad=0
report() {
  printf '%s\n' "$*"
  bad=1
}

# Our own files; builds and state live in hidden folders and build*/.
files() { find . \( -path './.*' -o -path './build*' \) -prune -o -type f "$@" -print | sort; }

# Which folders' headers each folder may include. It forces paths from the repository root, too.
declare -A allowed=(
  [common/base]='common/base'
  [common/domain]='common/base|common/domain'
  [common/store]='common/base|common/domain|common/store'
  [common/queue]='common/base|common/domain|common/queue'
  [common/http]='common/base|common/domain|common/http'
  [common/blob]='common/base|common/domain|common/http|common/blob'
  [api]='common/(base|domain|store|queue|http|blob)|api'
  [worker]='common/(base|domain|store|queue|http|blob)|worker'
)

rule_layering() {
  local file folder line
  for file in $(files -path './*/*' \( -name '*.h' -o -name '*.cc' \)); do
    folder=$(grep -oE '^(common/[^/]+|api|worker)/' <<<"${file#./}") || continue
    folder=${folder%/}
    if [[ -z ${allowed[$folder]:-} ]]; then
      report "$file: no rule says what $folder may include"
      continue
    fi
    while read -r line; do
      report "$file:$line is not for $folder"
    done < <(grep -nE '^ *# *include *"' "$file" | grep -vE "\"(${allowed[$folder]})/[^\"]+\"")
  done
}

# Every source is listed by hand in its folder's CMakeLists.txt, or in one above; and the folders
# of the tests in tests/CMakeLists.txt. What is not listed is never built, and never fails.
rule_listed() {
  local file folder kind
  for file in $(files -path './*/*' -name '*.cc'); do
    folder=${file%/*}
    until [[ $folder == . ]] || lists "$folder/CMakeLists.txt" "${file#"$folder"/}"; do
      folder=${folder%/*}
    done
    [[ $folder != . ]] || report "$file is never built: no CMakeLists.txt lists it"
  done
  for kind in $(files -path './tests/*/CMakeLists.txt' | cut -d / -f 3 | sort -u); do
    lists ./tests/CMakeLists.txt "$kind" || report "tests/CMakeLists.txt does not add tests/$kind"
  done
}

lists() { sed 's/#.*//' "$1" 2>/dev/null | tr -s ' ()\t"' '\n' | grep -qFx -- "$2"; }

# search REASON PATTERN FILE…: code only, without line comments.
search() {
  local reason=$1 pattern=$2 file line
  shift 2
  for file; do
    while read -r line; do
      report "$file:$line: $reason"
    done < <(sed -E 's@(^|[^:])//.*@\1@' "$file" | grep -nE -- "$pattern")
  done
}

rule_banned() {
  local sources tests line
  mapfile -t sources < <(files \( -name '*.h' -o -name '*.cc' \))
  mapfile -t tests < <(files -path './tests/*' \( -name '*.h' -o -name '*.cc' \) \
    ! -path './tests/support/*' ! -path './tests/bench/*')
  # The connector hides errors of these, and reconnects between them; transactions are statements.
  search 'use START TRANSACTION, COMMIT and ROLLBACK as statements' \
    '(->|\.) *(commit|rollback|setAutoCommit) *\(' "${sources[@]}"
  # The packaged Pistache sends such replies to the wrong client. An unnamed parameter is harmless.
  search 'replies go through our own handler, never this part of Pistache' \
    'ResponseWriter *(::|[&*]* *[a-z])|Rest::Router|Router::|serveFile' "${sources[@]}"
  # Only tests/support may sleep, between the looks of a wait that has a deadline; and benchmarks.
  search 'wait for the event, with a deadline' \
    '(^|[^_[:alnum:]])(sleep_for|sleep_until|usleep|nanosleep|sleep) *\(' \
    "${tests[@]}"
  while read -r line; do
    report "$line: finish it or drop it"
  done < <(files | grep -v '^\./tests/lint/' | tr '\n' '\0' |
    xargs -0 grep -InHE '\b(FIXME|TODO|XXX)\b' || true)
}

rule_format() {
  files \( -name '*.h' -o -name '*.cc' \) | tr '\n' '\0' |
    xargs -0 --no-run-if-empty clang-format --dry-run -Werror 2>&1 || report 'run clang-format -i'
}

rule_shell() {
  local scripts=()
  mapfile -t scripts < <(files -name '*.sh')
  shellcheck ./dev ./.ci/run "${scripts[@]}" || report 'shellcheck found something'
}

# The compose file is meant for other machines; here it is only read.
rule_compose() {
  /usr/bin/python3 - <<'END' || report 'compose.yaml'
import re, sys, yaml
text = open("compose.yaml").read()
services = yaml.safe_load(text)["services"]
bad = []
for name in ("api", "worker", "migrate", "rights", "database", "broker"):
    if name not in services:
        bad.append(f"no service {name}")
for name, service in services.items():
    if not ("image" in service or "build" in service):
        bad.append(f"{name}: neither image nor build")
    if "healthcheck" not in service:
        bad.append(f"{name}: no healthcheck")
    for other in service.get("depends_on", {}):
        if other not in services:
            bad.append(f"{name}: depends on {other}, which does not exist")
for use in re.findall(r"(?<!\$)\$\{([^}]*)\}", text):
    if ":?" not in use and ":-" not in use:
        bad.append(f"${{{use}}}: required (:?) or with a default (:-)")
print("\n".join(bad))
sys.exit(bool(bad))
END
}

cd "${2:-$(dirname "$0")/../..}"
case ${1:-} in
  layering) rule_layering ;;
  listed) rule_listed ;;
  banned) rule_banned ;;
  format) rule_format ;;
  shell) rule_shell ;;
  compose) rule_compose ;;
  *) report "no such rule: ${1:-}" ;;
esac
exit "$bad"
