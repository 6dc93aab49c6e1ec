#!/usr/bin/env python3
"""Each folder of examples/controllers, dry-run on a real API server with the resources of its project's release.

  tests/controllers/examples.py [--cluster NAME]      starts one of that name: etcd and the API server alone

Fails where the API server does not take a manifest field by field, or drops the annotation.
"""

import argparse
import json
import os
import subprocess
import sys
import time

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLUSTER = PROJECT + "/tests/cluster/cluster"
EXAMPLES = PROJECT + "/examples/controllers"
ANNOTATION = "compilecache.dev/cache"


def run(*words, given=None):
    return subprocess.run(words, input=given, capture_output=True, text=True, check=False, timeout=600)


def needed(*words, given=None):
    done = run(*words, given=given)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def resources(path):
    """The release's, without what converts between their versions: that is the controller's, which is not here."""
    with open(path, encoding="utf-8") as file:
        found = [one for one in json.load(file)["items"] if one["kind"] == "CustomResourceDefinition"]
    for one in found:
        one["spec"].pop("conversion", None)
    return {"apiVersion": "v1", "kind": "List", "items": found}


def established(kubectl):
    """Waits for all of them; `kubectl wait` fails at once where a new one has no conditions yet."""
    wait = (*kubectl, "wait", "--for=condition=Established", "crd", "--all", "--timeout=10s")
    for _ in range(10):
        if run(*wait).returncode == 0:
            return
        time.sleep(1)
    needed(*wait)


def annotations(thing):
    """How often the annotation stands anywhere in an object."""
    if isinstance(thing, dict):
        return (ANNOTATION in thing) + sum(map(annotations, thing.values()))
    return sum(map(annotations, thing)) if isinstance(thing, list) else 0


def objects(text):
    told = json.loads(text)
    return told["items"] if told["kind"] == "List" else [told]


def tried(kubectl, folder):
    """What is wrong with the example, or None."""
    written = needed(*kubectl, "kustomize", folder)
    done = run(*kubectl, "apply", "-f", "-", "--dry-run=server", "--validate=strict", "-o", "json", given=written)
    if done.returncode != 0:
        return done.stderr.strip()
    kept = sum(annotations(one.get("spec", {})) + (one["kind"] == "Pod" and annotations(one["metadata"].get("annotations", {})))
               for one in objects(done.stdout))
    wanted = written.count(f"{ANNOTATION}: ")
    return None if kept == wanted > 0 else f"of {wanted} annotations the API server keeps {kept} where they are"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", default=f"examples-{os.getpid()}")
    name = parser.parse_args().cluster
    folders = sorted(one for one in os.listdir(EXAMPLES) if one != "cache" and os.path.isdir(f"{EXAMPLES}/{one}"))
    controllers = sorted(one for one in os.listdir(f"{PROJECT}/tests/cluster/controllers") if "." not in one)
    needed(CLUSTER, "up", name, "--control-plane")
    kubectl, failed = [CLUSTER, "kubectl", name], 0
    try:
        needed(*kubectl, "apply", "-f", PROJECT + "/config/crds.yaml")
        for one in controllers:
            manifests = needed(CLUSTER, "controller-manifests", one).strip()
            needed(*kubectl, "apply", "--server-side", "-f", "-", given=json.dumps(resources(manifests)))
        established(kubectl)
        for folder in folders:
            wrong = tried(kubectl, f"{EXAMPLES}/{folder}")
            failed += wrong is not None
            print(f"{'FAILED' if wrong else 'taken'}: {folder}{': ' + wrong if wrong else ''}", flush=True)
    finally:
        run(CLUSTER, "down", name)
    print(f"{failed} of {len(folders)} examples are not taken by the API server as they stand")
    sys.exit(1 if failed or not folders else 0)


if __name__ == "__main__":
    main()
