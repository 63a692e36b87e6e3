#!/usr/bin/python3
"""manifests.py BIN FOLDER: every manifest of .deploy/kubernetes has the type that Kubernetes or KEDA gives it, by the types
of two packages from npm, which are kept in FOLDER; what they name of each other, and RUNBOOK.md of them, is there; the programs
in BIN know their settings. Without a cluster."""
import json, os, re, shutil, subprocess, sys, yaml

here = os.path.dirname(os.path.abspath(__file__))
manifests = os.path.join(here, "../../../.deploy/kubernetes")
bin, folder = map(os.path.abspath, sys.argv[1:])
modules = {"keda.sh/v1alpha1": "@kubernetes-models/keda/keda.sh/v1alpha1"}  # The others are Kubernetes' own.


def install():
    """Only this talks to anybody: to the registry that npm is set to."""
    names = ["package.json", "package-lock.json", ".npmrc"]
    stamp = "".join(open(f"{here}/{name}").read() for name in names)
    if os.path.exists(f"{folder}/installed") and open(f"{folder}/installed").read() == stamp:
        return
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name in names:
        shutil.copy(f"{here}/{name}", folder)
    ci = ["npm", "ci", "--no-progress", "--cache", f"{folder}/cache"]
    # npm asks again for an answer that does not come, not for one that breaks off.
    if subprocess.run(ci, cwd=folder).returncode != 0:
        subprocess.run(ci, cwd=folder, check=True)
    shutil.rmtree(f"{folder}/cache")
    open(f"{folder}/installed", "w").write(stamp)


def check_types(objects):
    imports, lines = set(), []
    for number, one in enumerate(objects):
        version, kind = one["apiVersion"], one["kind"]
        group = version.replace("networking/", "networking.k8s.io/")
        module = modules.get(version, f"kubernetes-models/{group}")
        imports.add(f"import type {{ I{kind} }} from '{module}';")
        lines.append(f"export const o{number}: I{kind} = {json.dumps(one, indent=1)};")
    # That types are compared at all: a member of theirs that has another name is noticed, in each package.
    lines.append("// @ts-expect-error\nexport const bad1: IDeployment = {apiVersion: 'apps/v1', kind: 'Deployment', specs: {}};")
    lines.append("// @ts-expect-error\nexport const bad2: IScaledObject = {apiVersion: 'keda.sh/v1alpha1', kind: 'ScaledObject', "
                 "metadata: {}, spec: {scaleTargetRef: {name: 'x'}, triggers: [], minReplicas: 1}};")
    open(f"{folder}/check.ts", "w").write("\n".join(sorted(imports) + lines) + "\n")
    said = subprocess.run(["node_modules/.bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext",
                           "--moduleResolution", "nodenext", "check.ts"],
                          cwd=folder, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout


provider_keys = {"PROVIDER_KEY_1", "PROVIDER_KEY_2"}  # As the chain names them.
with open(f"{manifests}/kustomization.yaml") as lines:
    told_before = re.search(r"\A(#.*\n)+", lines.read())[0]


def settings(program):
    said = subprocess.run([f"{bin}/{program}", "--help"], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"^  ([A-Z][A-Z0-9_]*)$", said, re.M))


def check_pod(name, labels, pod, shared):
    known = {"audio-api": settings("audio-api"), "audio-worker": settings("audio-worker")}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"], name
    keys = {item["path"] for item in volumes["secrets"]["secret"]["items"]}
    used = set()
    for container in pod["containers"] + pod.get("initContainers", []):
        assert container["image"] == "audiogen", name
        walls = container["securityContext"]
        assert walls["readOnlyRootFilesystem"] and not walls["allowPrivilegeEscalation"], name
        assert walls["capabilities"]["drop"] == ["ALL"], name
        assert container["resources"]["limits"]["memory"], name
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        assert mounts <= set(volumes), name
        told = [variable["name"] for variable in container.get("env", [])]
        if "envFrom" in container:
            told += shared
        for variable in told:
            program = container["args"][0].replace("sleep", "audio-api")  # Which is run there by hand.
            # What both are told may be one program's alone.
            names = known["audio-api"] | known["audio-worker"] if variable in shared else known[program]
            assert variable in names or variable.removesuffix("_FILE") in names or variable in provider_keys, \
                f"{name}: no setting {variable}"
        for variable in container["env"]:
            assert variable["name"] not in ("DATABASE_URL", "AMQP_URL", "BLOB_SIGNING_KEY"), f"{name}: a secret in the open"
            if "valueFrom" in variable:  # Not everybody has it, and a missing file of a volume keeps a pod from starting.
                secret = variable["valueFrom"]["secretKeyRef"]
                assert secret["name"] == "audiogen" and secret["optional"] is True, f"{name}: {variable}"
                assert secret["key"] == variable["name"].lower(), f"{name}: {variable}"
                assert re.search(rf"\b{secret['key']}\b", told_before), f"nobody hears of the secret {secret['key']}"
            elif variable["value"].startswith("/run/secrets/audiogen/"):
                used.add(os.path.basename(variable["value"]))
    assert used == keys, f"{name}: {used} is not {keys}"


def check_names(objects, shared):
    of_kind = lambda *kinds: [one for one in objects if one["kind"] in kinds]
    pods = {}
    for one in of_kind("Deployment", "Job"):
        pods[one["metadata"]["name"]] = one["spec"]["template"]
    for one in of_kind("CronJob"):
        pods[one["metadata"]["name"]] = one["spec"]["jobTemplate"]["spec"]["template"]
    for name, pod in pods.items():
        check_pod(name, pod["metadata"]["labels"], pod["spec"], shared)
        for volume in pod["spec"]["volumes"]:
            claim = volume.get("persistentVolumeClaim")
            assert not claim or claim["claimName"] in {one["metadata"]["name"] for one in of_kind("PersistentVolumeClaim")}
    ports = {pod["metadata"]["labels"]["app"]: {port["name"] for port in pod["spec"]["containers"][0].get("ports", [])}
             for pod in pods.values()}
    # What is offered is a setting; the chain lies where there may be one, without which the pods start all the same.
    with open(f"{manifests}/settings.env") as lines:
        offered = dict(re.findall(r"^#([A-Z_]+)=(.*)$", lines.read(), re.M))
    assert set(offered) <= settings("audio-api") | settings("audio-worker"), offered
    worker = pods["worker"]["spec"]
    mount = next(mount["mountPath"] for mount in worker["containers"][0]["volumeMounts"] if mount["name"] == "providers")
    assert os.path.dirname(offered["PROVIDERS_FILE"]) == mount, offered
    chain = next(volume for volume in worker["volumes"] if volume["name"] == "providers")["configMap"]
    assert chain == {"name": "providers", "optional": True}, chain
    assert f"create configmap {chain['name']} --from-file={os.path.basename(offered['PROVIDERS_FILE'])}\n" in told_before
    # It finishes what it has within 900 s at most, and needs some seconds more to give back the rest.
    assert pods["worker"]["spec"]["terminationGracePeriodSeconds"] >= 920
    for one in of_kind("Deployment"):
        assert one["spec"]["selector"]["matchLabels"] == one["spec"]["template"]["metadata"]["labels"], one
    # What operators are told to use; the namespace is that of all.
    with open(f"{manifests}/../../RUNBOOK.md") as lines:
        told = set(re.findall(r"\b(deployment|service)/([a-z-]+)", lines.read()))
    assert ("deployment", "admin") in told, told
    there = {(one["kind"].lower(), one["metadata"]["name"]) for one in objects}
    assert told <= there, told - there
    services = {}
    for one in of_kind("Service"):
        for port in one["spec"]["ports"]:
            assert port["targetPort"] in ports[one["spec"]["selector"]["app"]], one
        services[one["metadata"]["name"]] = {port["name"] for port in one["spec"]["ports"]}
    assert "ops" not in services["api"], "the operations port is where people are"
    for one in of_kind("PodDisruptionBudget"):
        assert one["spec"]["selector"]["matchLabels"]["app"] in ports, one
    for one in of_kind("NetworkPolicy"):
        names = ports[one["spec"]["podSelector"]["matchLabels"]["app"]]
        assert {port["port"] for rule in one["spec"]["ingress"] for port in rule["ports"]} <= names, one
    balanced, by_port = {}, {}
    for one in of_kind("Ingress"):
        told = {name.split("/")[1]: value for name, value in one["metadata"]["annotations"].items()}
        by = told.get("upstream-hash-by")
        # The API refuses what is too large, and until then nobody else holds it.
        assert told["proxy-body-size"] == "0" and told["proxy-request-buffering"] == "off", one
        assert told["limit-connections"] == "1000", "one address has all connections"
        for path in one["spec"]["rules"][0]["http"]["paths"]:
            service = path["backend"]["service"]
            assert service["name"] == "api" and service["port"]["name"] in services["api"], one
            balanced[path["path"]] = by
            # ingress-nginx takes it from the first Ingress that leads to this port, for all of them.
            assert by_port.setdefault(service["port"]["name"], by) == by, one
    # One process sees one key, whatever cookies come with it, and one session.
    assert balanced == {"/": "$http_authorization", "/files": None, "/console": "$http_cookie",
                        "/console/api/v1/sessions": "guesses", "/console/api/v1/password": "guesses"}, balanced
    for one in of_kind("ScaledObject"):
        assert one["spec"]["scaleTargetRef"]["name"] in pods, one
        assert "replicas" not in next(other for other in of_kind("Deployment")
                                      if other["metadata"]["name"] == one["spec"]["scaleTargetRef"]["name"])["spec"], \
            "two say how many there are"
        host = re.match(r"http://([^.]+)\.audiogen\.svc\.cluster\.local:8081/scale$", one["spec"]["triggers"][0]["metadata"]["url"])
        assert host[1] in services, one


main = yaml.safe_load(open(f"{manifests}/kustomization.yaml"))
files = {name for name in os.listdir(manifests) if name.endswith(".yaml")} - {"kustomization.yaml"}
assert files == set(main["resources"]), files ^ set(main["resources"])
assert main["configMapGenerator"] == [{"name": "settings", "envs": ["settings.env"]}]
shared = re.findall(r"^([A-Z_]+)=", open(f"{manifests}/settings.env").read(), re.M)
objects = [one for name in sorted(files) for one in yaml.safe_load_all(open(f"{manifests}/{name}"))]
version = re.search(r"project\(audiogen VERSION ([0-9.]+)", open(f"{here}/../../../CMakeLists.txt").read())[1]
assert main["images"] == [{"name": "audiogen", "newTag": version}], main["images"]
check_names(objects, shared)
install()
check_types(objects)
