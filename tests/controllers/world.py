"""A namespace with a volume and CompileCaches on the cluster of $KUBECONFIG, and what is seen of pods there."""

import json
import os
import shutil
import signal
import subprocess
import time

KUBECTL = os.environ.get("KUBECTL", "kubectl")
PATIENCE = 120  # seconds until something that has to come is missed
CACHE = "compilecache.dev/cache"
LOADER, SAVER = "compilecache-load", "compilecache-save"
# Writes one entry as PyTorch lays them out, or finds it; ends at once on a signal, like an application without a grace period.
APP = """trap 'exit 143' TERM
d=${TORCHINDUCTOR_CACHE_DIR:-/tmp/plain}/fxgraph/ab/KEY
if [ -e $d/entry ]; then cat $d/entry >/dev/null; echo warm; else mkdir -p $d; echo entry >$d/entry; echo cold; fi
until [ -e /tmp/end ]; do sleep 1 & wait $!; done"""


class Wrong(Exception):
    """Something that has to be seen was not."""


def kubectl(*words, given=None, fails=False):
    done = subprocess.run([KUBECTL, *words], input=given, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0 and not fails:
        raise Wrong(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
    return done


def until(what, look, patience=PATIENCE):
    """What `look` sees once it is something."""
    end = time.monotonic() + patience
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > end:
            raise Wrong(f"not seen within {patience} s: {what}")
        time.sleep(0.5)


def merged(first, second):
    """The second's fields over the first's."""
    both = dict(first)
    for name, value in second.items():
        both[name] = merged(both[name], value) if isinstance(value, dict) and isinstance(both.get(name), dict) else value
    return both


def is_ready(pod):
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod.get("status", {}).get("conditions", []))


def is_injected(pod):
    return any(one["name"] == LOADER for one in pod["spec"].get("initContainers", []))


def restarts(pod, ours=False):
    """Of the application's containers, or of the loader's and the saver's."""
    status = pod.get("status", {})
    return sum(one["restartCount"] for one in status.get("containerStatuses", []) + status.get("initContainerStatuses", [])
               if (one["name"] in (LOADER, SAVER)) == ours)


def processes_of(pod, program):
    """Of the pod on this machine, those whose command line begins so."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                if not file.read().replace(b"\0", b" ").decode(errors="replace").startswith(program):
                    continue
            with open(f"/proc/{process}/environ", "rb") as file:
                if pod["metadata"]["uid"].encode() in file.read():
                    found.append(int(process))
        except OSError:
            continue
    return found


def is_first(process):
    """Of its container: with it the container ends."""
    try:
        with open(f"/proc/{process}/status", encoding="utf-8") as file:
            return any(line.startswith("NSpid:") and line.split()[-1] == "1" for line in file)
    except OSError:
        return True


def kill(pods, program, work=False):
    """Ends what there is of it in these pods, once there is something; with `work` what does not end the container."""
    def look():
        return [process for pod in pods for process in processes_of(pod, program) if not (work and is_first(process))]
    for process in until(f"{program} of {', '.join(one['metadata']['name'] for one in pods)}", look):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


class World:
    """One namespace; what is left of it is taken away at the end."""

    def __init__(self, name):
        self.ns = f"controllers-{name}-{os.getpid()}"
        self.volume = f"{os.environ.get('CC_VOLUMES', '/var/tmp/compilecache-controllers')}/{self.ns}"

    def __enter__(self):
        os.makedirs(self.volume, exist_ok=True)
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.ns}})
        self.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": self.ns}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "",
            "claimRef": {"namespace": self.ns, "name": "caches"}, "hostPath": {"path": self.volume, "type": "Directory"}}})
        self.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "caches", "namespace": self.ns},
                    "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": self.ns,
                             "resources": {"requests": {"storage": "1Gi"}}}})
        return self

    def __exit__(self, *error):
        kubectl("delete", "namespace", self.ns, "--wait=false", fails=True)
        kubectl("delete", "pods", "--all", "-n", self.ns, "--grace-period=1", "--timeout=60s", fails=True)
        kubectl("delete", "pv", self.ns, "--wait=false", fails=True)
        shutil.rmtree(self.volume, ignore_errors=True)

    def apply(self, thing):
        kubectl("apply", "--server-side", "-f", "-", given=json.dumps(thing))

    def make(self, thing):
        kubectl("create", "-f", "-", given=json.dumps(thing))

    def get(self, *words):
        done = kubectl("get", *words, "-n", self.ns, "-o", "json", fails=True)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def patch(self, what, how):
        kubectl("patch", what, "-n", self.ns, "--type=merge", "-p", json.dumps(how))

    def pods(self, selector):
        """Those that are not on their way out, by name."""
        found = [one for one in self.get("pods", "-l", selector).get("items", []) if "deletionTimestamp" not in one["metadata"]]
        return sorted(found, key=lambda one: one["metadata"]["name"])

    def running(self, selector, count):
        """Waits for so many pods, all ready, and none more."""
        def look():
            found = self.pods(selector)
            return found if len(found) == count and all(map(is_ready, found)) else None
        return until(f"{count} ready pods with {selector}", look)

    def cache(self, name, spec):
        self.apply({"apiVersion": "compilecache.dev/v1alpha1", "kind": "CompileCache",
                    "metadata": {"name": name, "namespace": self.ns},
                    "spec": merged({"storage": {"claimName": "caches"}, "frameworks": ["torch"],
                                    "save": {"quietPeriod": "2s", "lockTimeout": "10s"}}, spec)})
        until(f"CompileCache {name} ready", lambda: any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in self.get("cc", name).get("status", {}).get("conditions", [])))

    def saved(self, cache):
        until(f"an archive of {cache}", lambda: any(
            one["spec"].get("cache") == cache and one.get("status", {}).get("head")
            for one in self.get("cca").get("items", [])))

    def suspend_and_resume(self, what, selector):
        """Of something with a spec.suspend: its pods go, and it is made to go on."""
        self.patch(what, {"spec": {"suspend": True}})
        until("the pods' end", lambda: not self.pods(selector))
        self.patch(what, {"spec": {"suspend": False}})

    def end(self, pods):
        """Lets their applications come to a good end."""
        for pod in pods:
            kubectl("exec", pod["metadata"]["name"], "-n", self.ns, "-c", pod["spec"]["containers"][0]["name"], "--", "touch", "/tmp/end")

    def said(self, pod):
        return kubectl("logs", pod["metadata"]["name"], "-n", self.ns, "-c", pod["spec"]["containers"][0]["name"], fails=True).stdout.split()


def template(cache, labels, version="1", keep_running=True, annotations=None):
    """A pod template, with our annotation where a cache is named."""
    notes = {**({CACHE: cache} if cache else {}), **(annotations or {})}
    return {"metadata": {"labels": labels, **({"annotations": notes} if notes else {})},
            "spec": {"terminationGracePeriodSeconds": 5, "restartPolicy": "Always" if keep_running else "Never",
                     "containers": [{"name": "app", "image": "docker.io/library/debian:bookworm-slim",
                                     "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", APP],
                                     "env": [{"name": "RELEASE", "value": version}],
                                     "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}}}]}}
