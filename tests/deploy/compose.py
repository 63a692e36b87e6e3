#!/usr/bin/python3
"""compose.py BIN: what compose.yaml tells the programs in BIN, with secrets as .deploy/secrets.sh makes them, is what
they understand. Without containers: the files of /run/secrets lie elsewhere here."""
import os, re, shutil, subprocess, sys, tempfile, yaml

root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
bin = os.path.abspath(sys.argv[1])


def compose(told={}):
    """compose.yaml for somebody whose .env has `told`: with ${NAME}, ${NAME:-default}, ${NAME:+…} and ${NAME:?…} filled in."""
    def value(use):
        name, kind, other = use.groups()
        if kind == "+":
            return other if name in told else ""
        return told.get(name, other if kind == "-" else "")
    text = open(f"{root}/compose.yaml").read()
    for _ in range(2):
        text = re.sub(r"(?<!\$)\$\{(\w+)(?::([-+?])([^{}]*))?\}", value, text)
    return yaml.safe_load(text)


file = compose()
told = open(f"{root}/compose.yaml").read()
assert not re.search(r"PORT=\d+\s", told), "a port without an address is published for IPv6, of which all clients are one"
pages = told + open(f"{root}/RUNBOOK.md").read() + open(f"{root}/README.md").read()
assert "run --rm admin" not in pages, "a look at the queue migrates the schema"
assert not re.search(r"docker compose (up|restart)[^`\n]*api-1 api-2", pages), "with both made anew at once nobody is answered"
for name in ".gitignore", ".dockerignore":
    ignored = open(f"{root}/{name}").read()
    assert all(re.search(rf"^/?{re.escape(one)}/?$", ignored, re.M) for one in (".env", ".secrets")), f"{name} lets secrets go"
assert not re.search(r"^worker_processes auto", open(f"{root}/.deploy/nginx/nginx.conf").read(), re.M), \
    "on a machine of many cores nginx has more processes than its container may"


def secrets(folder, walls=[]):
    subprocess.run([*walls, f"{root}/.deploy/secrets.sh", folder], check=True)
    return {name: open(f"{folder}/{name}").read() for name in os.listdir(folder)}


def check_secrets(folder):
    first = secrets(folder)
    assert set(file["secrets"]) <= set(first), set(file["secrets"]) - set(first)
    for name, secret in file["secrets"].items():
        assert secret["file"] == f"./.secrets/{name}", secret
    assert os.stat(folder).st_mode & 0o777 == 0o700
    top = told[:told.index("\nname: ")]
    unknown = {name for name in first if name in file["secrets"] and (not first[name] or name == "providers")
               and not re.search(rf"\b{name}\b", top)}
    assert not unknown, f"nobody hears that {unknown} are his to bring"
    for name in first:
        assert os.stat(f"{folder}/{name}").st_mode & 0o777 == 0o444, name
    assert secrets(folder) == first, "a second run changes what is there"
    # One that was interrupted left what it had written, without a right to write to it, which root alone does not need.
    os.rename(f"{folder}/amqp_url", f"{folder}/amqp_url.new")
    assert secrets(folder, ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []) == first
    os.remove(f"{folder}/database_api_password")
    changed = {name for name, value in secrets(folder).items() if value != first[name]}
    assert changed == {"database_api_password", "database_api_url", "database_users"}, changed


def check_modes(folder):
    """Whoever is root nowhere reads what is mounted as it is, also from a checkout that only its owner may read; but for
    what somebody has opened for a few."""
    deploy = f"{folder}/.deploy"
    shutil.copytree(f"{root}/.deploy", deploy)
    subprocess.run(["chmod", "-R", "u=rwX,go=", deploy], check=True)
    for_few = f"{deploy}/observe/alertmanager.yml"
    os.chmod(for_few, 0o640)
    said = [subprocess.run([f"{deploy}/secrets.sh", f"{folder}/.secrets"], check=True, capture_output=True, text=True).stdout
            for _ in range(2)]
    assert os.stat(for_few).st_mode & 0o777 == 0o640
    assert "/nginx/nginx.conf\n" in said[0] and "alertmanager.yml" not in said[0] and not said[1], said
    os.chmod(for_few, 0o444)
    mounted = {volume.split(":")[0] for front in ("plain", "tls") for service in compose({"FRONT": front})["services"].values()
               for volume in service.get("volumes", []) if volume.startswith("./")}
    closed = subprocess.run(["find", *mounted, "!", "-perm", "-444", "-o", "-type", "d", "!", "-perm", "-555"],
                            cwd=folder, check=True, capture_output=True, text=True).stdout
    assert mounted and not closed, closed


def settings(program):
    said = subprocess.run([f"{bin}/{program}", "--help"], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"^  ([A-Z][A-Z0-9_]*)$", said, re.M))


def run(arguments, environment):
    return subprocess.run([f"{bin}/{arguments[0]}", *arguments[1:]], env=environment, timeout=60, capture_output=True,
                          text=True)


def check_service(name, service, folder):
    arguments = [*service.get("entrypoint", []), *service.get("command", [])]
    program = re.search(r"audio-\w+", " ".join(arguments))[0]
    known = settings(program)
    environment = {}
    for variable, value in service["environment"].items():
        setting = re.sub("_FILE$", "", variable)
        assert variable in known or setting in known or setting in ("PROVIDER_KEY_1", "PROVIDER_KEY_2"), \
            f"{name}: {program} has no setting {variable}"
        if value is not None:  # Else it is set where .env sets it.
            environment[variable] = str(value).replace("/run/secrets/", f"{folder}/")
    shown = run([program, "--print-config"], environment)
    assert shown.returncode == 0 and "(unreadable)" not in shown.stdout, shown
    assert re.search(r"^DATABASE_URL=mysql://\*\*\*@database:3306/audiogen$", shown.stdout, re.M), shown
    if name not in ("api-1", "worker"):
        return
    # A wrong setting ends a program with 2 before it does anything; a folder that nobody can make, with 1.
    environment.pop("DATABASE_URL_FILE")
    environment |= {"DATABASE_URL": "mysql://nobody:x@127.0.0.1:1/x", "BLOB_URL": "file:///proc/none"}
    ended = run(arguments, environment)
    assert ended.returncode == 1 and "/proc/none" in ended.stderr, ended
    ended = run(arguments, environment | {"LOG_LEVEL": "wrong"})
    assert ended.returncode == 2, ended
    # What the other program alone is told may be in a file that both read.
    others = {"audio-api": ["DRAIN_SECONDS", "REFERENCES_MAX_MB"],
              "audio-worker": ["PUBLIC_URL", "RATE_LIMIT_READ_BURST", "TASK_DEADLINE_SECONDS"]}[program]
    assert not known & set(others), f"{program} reads none of {others}"
    ended = run(arguments, environment | {other: "wrong" for other in others})
    assert ended.returncode == 1 and "/proc/none" in ended.stderr, ended


def check_settings():
    """Whatever can be set can be set here, but for what is of no use in containers, or opens the network behind them."""
    known = settings("audio-api") | settings("audio-worker")
    told = set()
    for name in ("api-1", "worker"):
        for variable in file["services"][name]["environment"]:
            told |= {variable, variable.removesuffix("_FILE")}
    missing = known - told - {"CONSOLE_DIR", "URL_POLICY"}
    assert not missing, f"nobody can set {sorted(missing)}"


def check_both():
    """What both programs read, both are told: the API counts by the places that workers have. And of Debian's files no
    program's own has what the other one reads, too; each process has an address of its own for operations."""
    both = settings("audio-api") & settings("audio-worker") - {"DATABASE_URL"}
    api, worker = (file["services"][name]["environment"] for name in ("api-1", "worker"))
    for name in sorted(both):
        for variable in (name, f"{name}_FILE"):
            assert (variable in api) == (variable in worker) and api.get(variable) == worker.get(variable), variable
    for name in "api", "worker":
        told = set(re.findall(r"^#?([A-Z][A-Z0-9_]*)=", open(f"{root}/.deploy/etc/{name}.env").read(), re.M))
        shared = told & both - {"OPS_LISTEN"}
        assert told and not shared, f"{name}.env: {shared} belongs into common.env"


def check_stops():
    """A worker finishes what it has within 900 s at most, and needs some seconds more to give back the rest."""
    assert int(file["services"]["worker"]["stop_grace_period"].removesuffix("s")) >= 920
    assert str(file["services"]["worker"]["environment"]["DRAIN_SECONDS"]) == "0", "it knows its providers better"


def check_workers():
    """How many there are is said in .env, where the next `up` finds it, too."""
    for told, replicas in (({}, 2), ({"WORKERS": "5"}, 5)):
        assert compose(told)["services"]["worker"]["deploy"]["replicas"] == replicas, told


def check_upgrade():
    """README.md replaces whatever of ours goes on running, and has the files of secrets made first."""
    with open(f"{root}/README.md") as readme:
        told = re.search(r"^In `compose\.yaml` \(the image is built.*?^```sh\n(.*?)^```", readme.read(), re.M | re.S)[1]
    assert told.startswith(".deploy/secrets.sh "), told
    replaced = re.findall(r"^docker compose up --detach --no-deps (?:--wait )?(\S+)$", told, re.M)
    running = [name for name, service in file["services"].items() if "build" in service and service["restart"] != "no"]
    assert sorted(replaced) == sorted(running), f"{replaced} is not {running}"


def check_operators(folder):
    """Nobody but this machine reaches anything, nginx by default and the operations port always; who has a token acts by it."""
    for name, service in file["services"].items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name}: {port}"
    assert "127.0.0.1:8081:8081" in file["services"]["api-1"]["ports"]
    for name in ("api-1", "api-2"):
        api = file["services"][name]
        told = api["environment"]
        assert told["ACCESS_LOG"] == "off" and told["OPS_TOKEN_FILE"] == "/run/secrets/ops_token", name
        assert "ops_token" in api["secrets"] and "ops_token" in file["secrets"], name
    # A wrong setting ends a program with 2, a folder that nobody can make with 1. That empty is no wrong one, check_service shows.
    told = {"DATABASE_URL": "mysql://nobody:x@127.0.0.1:1/x", "AMQP_URL": "amqp://nobody:x@127.0.0.1:1/",
            "BLOB_URL": "file:///proc/none", "OPS_TOKEN_FILE": f"{folder}/token"}
    for token, code in (("short", 2), ("0123456789abcdef" * 2, 1)):
        open(f"{folder}/token", "w").write(token + "\n")
        ended = run(["audio-api", "serve"], told)
        assert ended.returncode == code, ended


check_settings()
check_both()
check_stops()
check_workers()
check_upgrade()
with tempfile.TemporaryDirectory() as folder:
    check_secrets(f"{folder}/secrets")
    check_modes(f"{folder}/checkout")
    check_operators(f"{folder}/secrets")
    for name, service in file["services"].items():
        if "build" in service:
            check_service(name, service, f"{folder}/secrets")
