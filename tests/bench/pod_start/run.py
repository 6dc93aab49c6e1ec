#!/usr/bin/env python3
"""How long pods take to start: a plain one, one with two containers of ours, and one with one.

    tests/bench/pod_start/run.py [--rounds 20] [--kubectl kubectl] [--volumes DIRECTORY]

Needs a cluster with the operator installed, a kubeconfig, and a directory of its node that this
program can write to. One after another, in turns: a pod of each kind is made, timed and deleted.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time

NAMESPACE = "pod-start"
IMAGE = "docker.io/library/debian:bookworm-slim"
KINDS = {"plain": None, "InitAndSidecar": "two", "Sidecar": "one"}
ENTRY = "$TORCHINDUCTOR_CACHE_DIR/fxgraph/ab/KEY"


class Cluster:
    def __init__(self, kubectl):
        self.kubectl = kubectl.split()

    def run(self, *arguments, text=None, check=True):
        done = subprocess.run([*self.kubectl, *arguments], input=text, capture_output=True, text=True, check=False)
        if check and done.returncode != 0:
            sys.exit(f"run.py: kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, *objects):
        self.run("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def get(self, *what):
        return json.loads(self.run("get", *what, "-n", NAMESPACE, "-o", "json"))


def until(what, condition, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    sys.exit(f"run.py: {what} did not come within {seconds} s")


def namespaced(kind, version, name, **rest):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, **rest}


def make_caches(cluster, folder):
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    size = {"storage": "1Gi"}
    volume = {"capacity": size, "accessModes": ["ReadWriteMany"], "storageClassName": "",
              "claimRef": {"namespace": NAMESPACE, "name": "caches"}, "hostPath": {"path": folder}}
    claim = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": NAMESPACE,
             "resources": {"requests": size}}
    cache = {"storage": {"claimName": "caches"}, "save": {"quietPeriod": "1s"}}
    cluster.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": NAMESPACE}, "spec": volume},
                  namespaced("PersistentVolumeClaim", "v1", "caches", spec=claim),
                  namespaced("CompileCache", "compilecache.dev/v1alpha1", "two", spec=cache),
                  namespaced("CompileCache", "compilecache.dev/v1alpha1", "one", spec={**cache, "delivery": "Sidecar"}))
    for name in ("one", "two"):
        cluster.run("wait", "--for=condition=Ready", f"cc/{name}", "-n", NAMESPACE, "--timeout=120s")


def pod(name, cache, command):
    annotations = {"compilecache.dev/cache": cache} if cache else {}
    container = {"name": "app", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", command]}
    made = namespaced("Pod", "v1", name, spec={"containers": [container], "terminationGracePeriodSeconds": 1})
    made["metadata"]["annotations"] = annotations
    return made


def save_archives(cluster, mebibytes):
    write = f"mkdir -p {ENTRY}; head -c {mebibytes}M /dev/urandom > {ENTRY}/file; exec sleep 600"
    for cache in ("one", "two"):
        cluster.apply(pod(f"save-{cache}", cache, write))
    until("an archive of each CompileCache", lambda: sum(
        item.get("status", {}).get("head", {}).get("generation", 0) > 0 for item in cluster.get("cca")["items"]) == 2)
    cluster.run("delete", "pod", "save-one", "save-two", "-n", NAMESPACE)


def seconds(stamp):
    """Of a log's line: RFC 3339 with nanoseconds."""
    base, rest = stamp.rstrip("Z").split(".")
    day = datetime.datetime.fromisoformat(base).replace(tzinfo=datetime.timezone.utc)
    return day.timestamp() + float("0." + rest)


def lines_of(cluster, name, container):
    text = cluster.run("logs", name, "-c", container, "-n", NAMESPACE, "--timestamps", check=False)
    return [(seconds(line.split(" ", 1)[0]), line) for line in text.splitlines() if line[:4].isdigit()]


def measure(cluster, kind, number):
    """Seconds: to the loader's first line, its work, from its end to the application, and all of it."""
    name, cache = f"{kind.lower()}-{number}", KINDS[kind]
    before = time.time()
    cluster.apply(pod(name, cache, "echo here; exec sleep 600"))
    app = until(f"the application of {name}", lambda: lines_of(cluster, name, "app"))[0][0]
    phases = {"all": app - before}
    if cache:
        loader = lines_of(cluster, name, "compilecache-load" if cache == "two" else "compilecache-save")
        ended = next((at for at, line in loader if " loaded " in line), None)
        if ended is None:
            sys.exit(f"run.py: {name} has not loaded: {loader}")
        phases.update(to_loader=loader[0][0] - before, load=ended - loader[0][0], to_app=app - ended)
    cluster.run("delete", "pod", name, "-n", NAMESPACE)
    return phases


def table(results):
    print("| | create to loader | load | loader's end to application | create to application | over plain |")
    print("|---|---|---|---|---|---|")
    median = lambda kind, phase: statistics.median(one[phase] for one in results[kind])
    for kind in KINDS:
        cells = ["–"] * 3
        if KINDS[kind]:
            cells = [f"{median(kind, phase):.2f} s" for phase in ("to_loader", "load", "to_app")]
        total = median(kind, "all")
        spread = sorted(one["all"] for one in results[kind])
        print(f"| {kind} | {' | '.join(cells)} | {total:.2f} s ({spread[0]:.2f} to {spread[-1]:.2f}) | "
              f"{total - median('plain', 'all'):+.2f} s |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--kubectl", default=os.environ.get("KUBECTL", "kubectl"))
    parser.add_argument("--volumes", default="/var/tmp/compilecache-pod-start")
    parser.add_argument("--mebibytes", type=int, default=8, help="of the archive, which hardly compresses")
    arguments = parser.parse_args()
    os.makedirs(arguments.volumes, exist_ok=True)
    cluster = Cluster(arguments.kubectl)
    print(f"{os.cpu_count()} cores, load before: {os.getloadavg()[0]:.1f}; {arguments.mebibytes} MiB; "
          f"medians of {arguments.rounds}", flush=True)
    try:
        make_caches(cluster, arguments.volumes)
        save_archives(cluster, arguments.mebibytes)
        results = {kind: [] for kind in KINDS}
        for number in range(arguments.rounds):
            for kind in KINDS:
                results[kind].append(measure(cluster, kind, number))
        table(results)
        print(f"load after: {os.getloadavg()[0]:.1f}")
    finally:
        cluster.run("delete", "namespace", NAMESPACE, check=False)
        cluster.run("delete", "pv", NAMESPACE, check=False)


if __name__ == "__main__":
    main()
