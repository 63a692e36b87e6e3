#!/usr/bin/python3
"""rules.py: what lies in .deploy/observe is what Prometheus and Alertmanager understand, each alert says where its section of
RUNBOOK.md is, and in alerts_test.yml each fires and clears; nobody is told less because one process is cut off by itself."""
import os, re, shutil, subprocess, sys, tempfile, yaml

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.join(here, "../../..")
observe = f"{root}/.deploy/observe"
rules = [rule for group in yaml.safe_load(open(f"{observe}/alerts.yml"))["groups"] for rule in group["rules"]]
cases = yaml.safe_load(open(f"{here}/alerts_test.yml"))["tests"]


def run(*command):
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert ended.returncode == 0, f"{' '.join(command)}:\n{ended.stdout}"
    return ended.stdout


def without_annotations(folder):
    """promtool compares those that a test expects with those there are; which sentence it is, is no matter for a test."""
    file = yaml.safe_load(open(f"{observe}/alerts.yml"))
    for group in file["groups"]:
        for rule in group["rules"]:
            rule.pop("annotations")
    yaml.safe_dump(file, open(f"{folder}/alerts.yml", "w"), sort_keys=False)
    shutil.copy(f"{here}/alerts_test.yml", folder)


for rule in rules:
    name, annotations = rule["alert"], rule.get("annotations", {})
    assert rule["labels"]["severity"] in ("page", "ticket"), name
    assert annotations["summary"] and annotations["description"].endswith("."), name
    assert annotations["runbook"] == f"RUNBOOK.md#{name.lower()}", name
    asked = [check for case in cases for check in case["alert_rule_test"] if check["alertname"] == name]
    fires = [index for index, check in enumerate(asked) if check["exp_alerts"]]
    assert fires and not asked[0]["exp_alerts"], f"{name}: no test shows that it fires, after it did not"
    ends = any(not check["exp_alerts"] for check in asked[fires[0] + 1:])
    assert ends, f"{name}: no test shows that it clears"
assert len({rule["alert"] for rule in rules}) == len(rules)
known = {rule["alert"] for rule in rules}
jobs = {job["job_name"] for job in yaml.safe_load(open(f"{observe}/prometheus.yml"))["scrape_configs"]}
for inhibit in yaml.safe_load(open(f"{observe}/alertmanager.yml"))["inhibit_rules"]:
    source, target = ({label: set(names.split("|")) for label, names in (re.fullmatch(r'(\w+)=~?"(.*)"', one).groups() for one in inhibit[side])}
                      for side in ("source_matchers", "target_matchers"))
    for matchers in source, target:
        for label, names in matchers.items():
            unknown = names - {"alertname": known, "job": jobs}[label]
            assert not unknown, f"alertmanager.yml: there is no {unknown}"
    # What a process, a provider or a disk tells of itself alone is no reason for silence about the service.
    labels = {label for case in cases for check in case["alert_rule_test"] if check["alertname"] in source["alertname"]
              for alert in check["exp_alerts"] for label in alert["exp_labels"]}
    alone = labels - {"severity"} - set(inhibit.get("equal", []))
    assert not alone, f"alertmanager.yml: {source['alertname']} of one {' '.join(sorted(alone))} mutes {target['alertname']}"
run("promtool", "check", "config", f"{observe}/prometheus.yml")
run("promtool", "check", "rules", f"{observe}/alerts.yml")
run("amtool", "check-config", f"{observe}/alertmanager.yml")
with tempfile.TemporaryDirectory() as folder:
    without_annotations(folder)
    print(run("promtool", "test", "rules", f"{folder}/alerts_test.yml"))
