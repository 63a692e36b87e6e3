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
files() {
  find . \( -path './.*' ! -path './.dev' ! -path './.dev/*' ! -path './.deploy' ! -path './.deploy/*' -o -path './build*' -o -name node_modules \) -prune \
    -o -type f "$@" -print | sort
}

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
  [worker/audio]='common/(base|domain)|worker/audio'
  [worker/sandbox]='common/base|worker/sandbox'
  [worker/speech]='common/base|worker/(sandbox|speech)'
  [worker/decode]='common/base|worker/(audio|sandbox|decode)'
  [worker/chain]='common/(base|domain)|worker/(audio|chain)'
  [worker/local]='common/(base|domain)|worker/(audio|sandbox|speech|chain|local)'
  [worker/onnx]='common/(base|domain)|worker/(audio|sandbox|chain|local|onnx)'
  [worker/providers]='common/(base|domain|http)|worker/(audio|chain|local|onnx|providers)'
  [worker/job]='common/(base|domain|store|queue|http|blob)|worker/(audio|chain|job)'
  [worker/upkeep]='common/(base|domain|store|queue|blob)|worker/(audio|chain|upkeep)'
)

rule_layering() {
  local file folder line
  for file in $(files -path './*/*' \( -name '*.h' -o -name '*.cc' \)); do
    folder=$(grep -oE '^(common/[^/]+|api|worker/[^/]+|worker)/' <<<"${file#./}") || continue
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

# search REASON PATTERN FILE…: code only, without line comments. One process for all files: with a
# few for each, the rules took minutes on a busy machine.
search() {
  local reason=$1 pattern=$2 line
  shift 2
  while read -r line; do
    report "$line: $reason"
  done < <(perl -ne 'BEGIN { $pattern = shift } s@(^|[^:])//.*@$1@;
    print "$ARGV:$.:$_" if /$pattern/; close ARGV if eof' -- "$pattern" "$@")
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
  # A steady clock counts from the boot: a time point of nothing is "when the machine was started",
  # and everything timed from it goes wrong for as long after a boot.
  local steady='\b(time_point|TimePoint|Time)' name='[a-z_0-9]+'
  search 'say "never" with std::optional, and give any other time its value' \
    "$steady( +$name)?( *= *)?\{ *\}|($steady|\bInstant) *(\( *\)|\{ *\})([^>]|\$)" "${sources[@]}"
  search 'say "never" with std::optional, and give any other time its value' \
    "(^|[{;]) *([A-Za-z_]+::)*$steady +${name}_;|(static|thread_local) [^;]*$steady +$name;" \
    "${sources[@]}"
  # The same as a number, which atomics hold. A member of an aggregate, which has no underscore behind its name, is not
  # asked for: whoever makes one and leaves it out is told by the compiler (-Wmissing-field-initializers).
  search 'say "never" with std::optional, and give any other time its value' \
    "(\brep|\batomic<[^<>]*\b(rep|time_point|TimePoint|Clock::duration)>) +$name *(= *)?(0 *;|\{ *0? *\})|\brep +$name;" "${sources[@]}"
  # Nor is the compiler of any help where the operator [] of a map makes one, out of nothing. The map's own source says
  # whether it is asked so: the header that declares it, or the .cc beside it.
  while read -r line; do
    report "$line, made by [] of a map: say \"never\" with std::optional, and give any other time its value"
  done < <(perl -0777 -ne '
    s@//.*@@g;
    my ($text, $maps, $uses, $file) = ($_, $_, $_, $ARGV);
    if ($file =~ s/\.h$//) {
      if (open my $source, "<", "$file.cc") { $uses .= <$source> }
    }
    while ($text =~ /\bstruct (\w+) (?=(\{(?:[^{}]|(?2))*\}))/g) {
      my ($name, $members) = ($1, $2);
      next unless $members =~ /[{;]\s*(?:\w+::)*(?:time_point|TimePoint|Time) +(\w+)(?:, \w+)*;/;
      my $member = $1;
      while ($maps =~ /\bmap<[^;]*\b\Q$name\E\b[^;]*> *(\w+)/g) {
        my $map = $1;
        print "$ARGV: $name: $member\n" if $uses =~ /\b$map\[/;
      }
    }' "${sources[@]}")
  # Only tests/support may sleep, between the looks of a wait that has a deadline; and benchmarks.
  search 'wait for the event, with a deadline' \
    '(^|[^_[:alnum:]])(sleep_for|sleep_until|usleep|nanosleep|sleep) *\(' \
    "${tests[@]}"
  # An end that has to lie ahead of a clock does so for some years only. Pure tests say themselves
  # what time it is.
  mapfile -t tests < <(files -path './tests/*' ! -path './tests/unit/*' \
    \( -name '*.h' -o -name '*.cc' -o -name '*.mjs' \))
  search 'count what lies ahead from now (tests/support/dates.h)' \
    'expir\w*\W{1,12}(202[7-9]|20[3-9]\d|2[1-9]\d\d)-\d\d-' "${tests[@]}"
  while read -r line; do
    report "$line: finish it or drop it"
  done < <(files | grep -v '^\./tests/lint/' | tr '\n' '\0' |
    xargs -0 grep -InHE '\b(FIXME|TODO|XXX)\b' || true)
}

rule_format() {
  # Each version of clang-format has a taste of its own; the code's is that of Debian 12's.
  [[ $(clang-format --version) == *' version 14.'* ]] || {
    echo 'Not checked: clang-format is not of version 14.'
    return 0
  }
  files \( -name '*.h' -o -name '*.cc' \) | tr '\n' '\0' |
    xargs -0 --no-run-if-empty clang-format --dry-run -Werror 2>&1 || report 'run clang-format -i'
}

rule_shell() {
  local scripts=()
  mapfile -t scripts < <(files -name '*.sh' ! -path './.dev/*')
  shellcheck ./.ci/run "${scripts[@]}" || report 'shellcheck found something'
  shellcheck -x ./dev || report 'shellcheck found something in ./dev or .dev/'  # As the one program that it is.
}

# Mutexes are those that say what they guard (common/base/mutex.h), and clang proves that it is so.
rule_locks() {
  local sources headers header line
  mapfile -t sources < <(files \( -path './api/*' -o -path './worker/*' -o -path './common/*' \) \
    \( -name '*.h' -o -name '*.cc' \) ! -path './common/base/mutex.h')
  search 'use Mutex of common/base/mutex.h, whose rules are checked' \
    'std::((shared_|recursive_|timed_)*mutex|(shared|unique|scoped)_lock|lock_guard|condition_variable)\b' \
    "${sources[@]}"
  while read -r line; do
    report "$line: say what it guards, with GUARDED_BY"
  done < <(perl -0777 -ne 'while (/\bMutex (\w+);(?!  \/\/ Guards nothing)/g) { print "$ARGV: $1\n" unless /GUARDED_BY\($1\)/ }' "${sources[@]}")
  mapfile -t headers < <(grep -lE 'GUARDED_BY' "${sources[@]}" | grep '\.h$')
  {
    grep -lE '\b(MutexLock|GUARDED_BY)\b' "${sources[@]}" | grep '\.cc$' || true
    for header in "${headers[@]}"; do  # What is a template is checked where it is used.
      grep -lF "\"${header#./}\"" "${sources[@]}" | grep '\.cc$' || true
    done
    # A template of Pistache's that nobody uses is an error to newer compilers, unless its body is read when it is used.
  } | sort -u | xargs --no-run-if-empty -P "$(nproc)" -n 4 \
    clang++ -std=c++20 -fdelayed-template-parsing -I. -fsyntax-only -Wno-everything -Wthread-safety -Werror '-DAUDIOGEN_VERSION=""' 2>&1 ||
    report 'clang found what is not guarded'
}

# The compose file is meant for other machines; here it is only read.
rule_compose() {
  /usr/bin/python3 - <<'END' || report 'compose.yaml'
import re, sys, yaml
text = open("compose.yaml").read()
file = yaml.safe_load(text)
services = file["services"]
bad = []
for name in ("nginx", "api-1", "api-2", "worker", "migrate", "users", "rights", "database", "broker"):
    if name not in services:
        bad.append(f"no service {name}")
used = {part: set() for part in ("secrets", "volumes", "networks")}
for name, service in services.items():
    def wants(holds, what):
        if not holds:
            bad.append(f"{name}: {what}")
    wants("image" in service or "build" in service, "neither image nor build")
    wants("build" in service or re.search(r":v?[0-9]+\.[0-9.]+$", service.get("image", "")),
          "the image has to be pinned by a version")
    wants("healthcheck" in service, "no healthcheck")
    wants(service.get("read_only") is True, "its root can be written to (read_only)")
    wants(service.get("cap_drop") == ["ALL"] and "cap_add" not in service, "has rights of root (cap_drop)")
    wants("no-new-privileges:true" in service.get("security_opt", []), "may gain rights (security_opt)")
    wants("user" in service or "build" in service, "runs as root (user)")
    limits = service.get("deploy", {}).get("resources", {}).get("limits", {})
    wants("memory" in limits and "pids" in limits, "no limits of memory and pids")
    wants("max-size" in service.get("logging", {}).get("options", {}), "its log has no limit")
    wants(name == "nginx" or all(port.startswith("127.0.0.1:") for port in service.get("ports", [])),
          "is not behind nginx (ports)")
    for other in service.get("depends_on", {}):
        wants(other in services, f"depends on {other}, which does not exist")
    for key, value in service.get("environment", {}).items():
        secret = re.search(r"PASSWORD|SECRET|_KEY(_OLD|_[0-9]+)?$|^(DATABASE|AMQP|SMTP)_URL$", key)
        wants(not secret or key.endswith("_FILE"), f"{key} has to be a file ({key}_FILE)")
        for path in re.findall(r"^/run/secrets/(.*)", str(value)):
            wants(path in service.get("secrets", []), f"{key}: it does not have the secret {path}")
    for secret in service.get("secrets", []):
        used["secrets"].add(secret if isinstance(secret, str) else secret["source"])
    used["volumes"] |= {one.split(":")[0] for one in service.get("volumes", []) if one[0] not in "./"}
    used["networks"] |= set(service.get("networks", ["default"]))
for part, names in used.items():
    for name in names ^ set(file.get(part) or {}):
        bad.append(f"{part}: {name} is {'not declared' if name in names else 'used by nobody'}")
for use in re.findall(r"(?<!\$)\$\{([^}]*)\}", text):
    if not re.search(r":[?+-]", use):
        bad.append(f"${{{use}}}: required (:?) or with a default (:-)")
print("\n".join(sorted(bad)))
sys.exit(bool(bad))
END
}

# What comments and pages cite has to be in the repository: reasons in the README.md of a folder, by
# their heading, the interface in schema/openapi.json, and published standards. So have the files and
# folders that they name.
rule_citations() {
  # Not this folder, which has to say what is refused.
  files ! -path './tests/lint/*' \( -name '*.h' -o -name '*.cc' -o -name '*.sql' \
    -o -name '*.sh' -o -name '*.py' -o -name '*.js' -o -name '*.mjs' -o -name '*.ts' -o -name '*.css' \
    -o -name '*.yaml' -o -name 'CMakeLists.txt' -o -name '*.md' -o -path './dev' \) |
    /usr/bin/python3 -c "$citations" || report 'cite what is here, or say the reason in place'
}

citations=$(cat <<'END'
import os, re, sys

# Chapters of documents that are not here, and numbers out of lists that are not.
absent = [re.compile(pattern) for pattern in (
    r"\bDESIGN\b",
    r"\b([Rr]eliability|db-queue|pistache|style|product|console|operators)(\.md)?,? (§ ?)?[0-9]",
    r"\b[Ii]nterface(\.md)?,? (§ ?)?[0-9]",
    r"\((see )?(database|audio|providers)(\.md)?,? [0-9]+(\.[0-9]+)*( [a-z])?( ?[-–] ?[0-9.]+)?[),;]",
    r"\b([Rr]eliability|[Ff]inding) [A-Z][0-9]",
    r"\([FHLV][0-9]{1,2}(, ?[FHLV]?[0-9]+)*\)",
    r"\b([Rr]ows? [0-9]+ of the|fault plan)\b|\bRow [0-9]+:",
    r"\b[Ii]ssues? #?[0-9]",
)]
section = re.compile(r"(?:\bsection|\bchapter|§) ?[0-9]")
standard = re.compile(r"\b(RFC [0-9]+|ISO(/IEC)? [0-9-]+|ITU-[RT] [A-Z0-9.]+|ID3v2\.[0-9]),? *$")
page = re.compile(r"(?<![\w/.~$*}-])((?:[\w.-]+/)*[\w.-]+\.md)\b(?:`|\))?(?:, \"([^\"]+)\")?")
# A name with an ending, below one of our folders; on a page also any quoted one with a slash.
tree = re.compile(r"(?<![\w/.~$*}<\"-])(?:api|common|schema|tests|worker)/[\w./-]*\.(?:h|cc|sql|sh|json|txt|yaml|py|supp)\b")
quoted = re.compile(r"`([^`]+)`")
named = re.compile(r"(?:\./)?(?!\.local/)\w[\w.-]*(?:/[\w.-]+)*/(?:[\w.-]+\.[a-z]{1,4})?")
example = re.compile(r"NNNN|KIND")
marks = {".sql": "--", ".h": "//", ".cc": "//", ".js": "//", ".mjs": "//", ".ts": "//", ".css": r"/?\*"}

def pieces(path):
    """(line, text) of each comment, its lines joined; of each paragraph of a page."""
    lines = open(path, encoding="utf-8", errors="replace").read().splitlines()
    kind = os.path.splitext(path)[1]
    begun, text = 0, []
    for number, line in enumerate(lines + [""], 1):
        if kind == ".md":
            part, alone = line.strip(), True
        else:
            found = re.match(r"(.*?)(?:^|(?<=[\s;{}(),]))%s\s?(.*)$" % marks.get(kind, "#"), line)
            part = found[2].strip() if found else ""
            alone = bool(found) and not found[1].strip()
        if text and not (part and alone):
            yield begun, " ".join(text)
            text = []
        if part and alone:
            begun = begun if text else number
            text.append(part)
        elif part:
            yield number, part

def titles(path):
    text = open(path, encoding="utf-8", errors="replace").read()
    return set(re.findall(r"^#+ (.+?) *$", text, re.M)) | set(re.findall(r"^\*\*(.+?)\.?\*\*", text, re.M))

def names(path, text):
    if path.endswith(".md"):
        for found in quoted.finditer(text):
            yield from filter(named.fullmatch, found[1].split())
    else:
        yield from tree.findall(text)

# Tests, and faults of the arena, by their names.
test = re.compile(r"`([A-Z]\w*?[a-z]\w*)\.([A-Z]\w*?[a-z]\w*)`")
fault = re.compile(r"`(?:Link|DatabaseServer|BrokerServer)/(\w+)`")
tests = set()
for folder, _, files in os.walk("tests"):
    for name in files:
        if name.endswith("_test.cc") or name == "faults.cc":
            text = open(os.path.join(folder, name), encoding="utf-8").read()
            tests |= set(re.findall(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", text, re.M))
            tests |= set(re.findall(r"\bFault\{\"(\w+)\"", text))

bad = False
for path in sys.stdin.read().split("\n"):
    if not path:
        continue
    for line, text in pieces(path):
        wrong = [found[0] for pattern in absent for found in pattern.finditer(text)]
        wrong += [found[0] for found in section.finditer(text) if not standard.search(text[:found.start()])]
        for found in page.finditer(text):
            places = [os.path.normpath(os.path.join(base, found[1])) for base in (os.path.dirname(path), ".")]
            here = next((place for place in places if os.path.isfile(place)), None)
            if here is None:
                wrong.append(found[1] + ": no such page")
            elif found[2] and found[2] not in titles(here):
                wrong.append(here + ' has no "' + found[2] + '"')
        bases = [os.path.dirname(path), "."]
        for name in names(path, text):
            there = [place for place in (os.path.join(base, name) for base in bases) if os.path.exists(place)]
            bases += filter(os.path.isdir, there)  # What else a row of a table names lies in its first.
            if not there and not example.search(name):
                wrong.append(name + ": not here")
        if path.endswith(".md"):
            wrong += [found[0] + ": no such test" for found in test.finditer(text) if found.groups() not in tests]
            wrong += [found[0] + ": no such fault" for found in fault.finditer(text) if found[1] not in tests]
        for what in wrong:
            print(f"{path}:{line}: {what}")
            bad = True
sys.exit(bad)
END
)

cd "${2:-$(dirname "$0")/../..}"
case ${1:-} in
  layering) rule_layering ;;
  listed) rule_listed ;;
  banned) rule_banned ;;
  format) rule_format ;;
  shell) rule_shell ;;
  locks) rule_locks ;;
  compose) rule_compose ;;
  citations) rule_citations ;;
  *) report "no such rule: ${1:-}" ;;
esac
exit "$bad"
