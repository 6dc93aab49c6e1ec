"""The API server's objects for the benchmark: made, changed and removed by many connections at once."""

import base64
import copy
import hashlib
import http.client
import json
import os
import ssl
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlparse

GROUP = "/apis/compilecache.dev/v1alpha1"
LABEL = "compilecache.dev/cache"


class Api:
    """The API server as the administrator sees it. Each thread has a connection of its own."""

    def __init__(self, kubectl):
        config = json.loads(subprocess.check_output(
            [*kubectl, "config", "view", "--raw", "--minify", "--flatten", "-o", "json"]))
        user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
        url = urlparse(cluster["server"])
        self.host, self.port = url.hostname, url.port
        self.context = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(base64.b64decode(user["client-certificate-data"]))
            pem.write(b"\n" + base64.b64decode(user["client-key-data"]))
            pem.flush()
            self.context.load_cert_chain(pem.name)
        self.mine = threading.local()

    def send(self, method, path, body=None, content="application/json", may_exist=False):
        text = None if body is None else json.dumps(body)
        for again in (True, False):
            connection = getattr(self.mine, "connection", None)
            if connection is None:
                connection = self.mine.connection = http.client.HTTPSConnection(
                    self.host, self.port, context=self.context, timeout=120)
            try:
                connection.request(method, path, text, {"Content-Type": content})
                answer = connection.getresponse()
                data = answer.read()
                break
            except (http.client.HTTPException, OSError):
                self.mine.connection = None
                if not again:
                    raise
        if answer.status >= 300 and not (may_exist and answer.status == 409):
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:300]!r}")
        return json.loads(data) if data else None

    def create(self, path, body):
        return self.send("POST", path, body, may_exist=True)

    def merge(self, path, body):
        return self.send("PATCH", path, body, "application/merge-patch+json")


def digest(*parts):
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def uid(*parts):
    text = digest(*parts)
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:32]))


class World:
    """`scale` 1: 20,000 pods, half of them labelled, 1,000 nodes, 200 CompileCaches, 2,000 archives.

    Each CompileCache is used by the pods of one ReplicaSet, with an image of its own."""

    def __init__(self, api, root, scale):
        self.api = api
        with open(os.path.join(root, "tests/testdata/injection/gpu/patched.json"), encoding="utf-8") as file:
            self.injected = json.load(file)
        with open(os.path.join(root, "tests/testdata/injection/gpu/pod.json"), encoding="utf-8") as file:
            self.plain = json.load(file)
        self.caches = max(5, int(200 * scale))
        self.namespaces = max(1, self.caches // 10)
        self.pods, self.nodes = int(10_000 * scale), max(1, int(1_000 * scale))
        self.archives_each = 10
        self.churns = 0
        self.pool = ThreadPoolExecutor(16)

    def each(self, numbers, work):
        for _ in self.pool.map(work, numbers):
            pass

    def namespace(self, number):
        return f"bench-{number % self.namespaces}"

    def cache(self, number):
        """The CompileCache of a pod or archive: name and namespace."""
        number %= self.caches
        return f"cache-{number}", self.namespace(number)

    def make(self):
        self.each(range(self.namespaces), self.make_namespace)
        self.each(range(self.nodes), self.make_node)
        self.each(range(self.caches), self.make_cache)
        self.each(range(self.pods), self.make_pod)
        self.each(range(self.pods), self.make_other_pod)

    def make_namespace(self, number):
        name = self.namespace(number)
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        self.api.create("/api/v1/persistentvolumes", {
            "metadata": {"name": name},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "none",
                     "hostPath": {"path": "/nowhere"}}})
        claims = f"/api/v1/namespaces/{name}/persistentvolumeclaims"
        self.api.create(claims, {
            "metadata": {"name": "caches"},
            "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "none", "volumeName": name,
                     "resources": {"requests": {"storage": "1Gi"}}}})
        self.api.merge(claims + "/caches/status",
                       {"status": {"phase": "Bound", "accessModes": ["ReadWriteMany"]}})

    def make_node(self, number):
        name = f"node-{number}"
        labels = {f"feature.node.kubernetes.io/cpu-cpuid.F{i}": "true" for i in range(60)}
        labels.update({"kubernetes.io/arch": "amd64", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
        self.api.create("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        images = [{"names": [f"registry.example/team/app-{i}@sha256:{i:064x}", f"registry.example/team/app-{i}:1"],
                   "sizeBytes": 10**9} for i in range(40)]
        self.api.merge(f"/api/v1/nodes/{name}/status",
                       {"status": {"images": images, "nodeInfo": {"kubeletVersion": "v1.35.4"}}})

    def make_cache(self, number):
        name, namespace = self.cache(number)
        caches = f"{GROUP}/namespaces/{namespace}/compilecaches"
        self.api.create(caches, {
            "apiVersion": "compilecache.dev/v1alpha1", "kind": "CompileCache", "metadata": {"name": name},
            "spec": {"storage": {"claimName": "caches"}, "frameworks": ["torch"]}})
        # Prepared, so that nobody waits for Jobs that have no controller here.
        now = "2026-01-01T00:00:00Z"
        status = {"observedGeneration": 1, "lastSweep": {"time": "2099-01-01T00:00:00Z"}, "conditions": [
            {"type": kind, "status": "True", "reason": "Prepared", "message": "", "observedGeneration": 1,
             "lastTransitionTime": now} for kind in ("StorageReady", "Ready")]}
        made = self.api.merge(f"{caches}/{name}/status", {"status": status})
        for archive in range(self.archives_each):
            self.make_archive(name, namespace, made["metadata"]["uid"], archive)

    def make_archive(self, cache, namespace, owner, number):
        archives = f"{GROUP}/namespaces/{namespace}/compilecachearchives"
        name = f"{cache}-{number:08x}"
        self.api.create(archives, {
            "apiVersion": "compilecache.dev/v1alpha1", "kind": "CompileCacheArchive",
            "metadata": {"name": name, "labels": {LABEL: cache}, "ownerReferences": [
                {"apiVersion": "compilecache.dev/v1alpha1", "kind": "CompileCache", "name": cache, "uid": owner}]},
            "spec": {"cache": cache, "claimName": "caches", "path": cache, "key": {
                "GPUProduct": f"NVIDIA-H100-{number}", "GPUCount": "1", "Architecture": "amd64",
                "Image": self.image(cache)}}})

        def head(generation):
            digests = [f"sha256:{digest(namespace, name, generation, i)}" for i in range(6)]
            return {"manifestDigest": digests[0], "generation": generation, "compressedBytes": 10**8,
                    "plainBytes": 10**9, "files": 1000, "layers": 4, "compileSeconds": 100, "savedBy": "web-1",
                    "savedAt": "2026-01-01T00:00:00Z", "imageID": f"{self.image(cache)}@sha256:{digest(cache)}",
                    "blobs": digests}
        self.api.merge(f"{archives}/{name}/status", {"status": {
            "head": head(2), "previous": head(1), "lastUsedTime": "2099-01-01T00:00:00Z"}})

    @staticmethod
    def image(cache):
        return f"registry.example/team-{cache}/app:7"

    def make_pod(self, number):
        cache, namespace = self.cache(number)
        text = json.dumps(self.injected).replace("registry.example/app:7", self.image(cache))
        pod = json.loads(text.replace("Deployment/web", f"Deployment/{cache}"))
        pod["metadata"]["labels"][LABEL] = cache
        pod["metadata"]["annotations"][LABEL] = cache
        pod["metadata"]["ownerReferences"][0].update(name=f"{cache}-6d9f7c5b8", uid=uid(cache))
        self.create_pod(pod, namespace, f"{cache}-6d9f7c5b8-{digest(number)[:5]}", number)
        self.run_pod(number, 0)

    def make_other_pod(self, number):
        pod = copy.deepcopy(self.plain)
        pod["metadata"].pop("annotations", None)
        env = pod["spec"]["containers"][0].setdefault("env", [])
        while len(json.dumps(pod)) < 7000:
            env.append({"name": f"SETTING_{len(env)}", "value": f"the value of setting {len(env)} of this application"})
        namespace = self.namespace(number)
        self.create_pod(pod, namespace, f"other-{number}", number)
        self.api.merge(f"/api/v1/namespaces/{namespace}/pods/other-{number}/status",
                       {"status": self.running(pod, number, 0)})

    def create_pod(self, pod, namespace, name, number):
        pod["metadata"].pop("generateName", None)
        pod["metadata"].update(name=name, namespace=namespace)
        pod["spec"]["nodeName"] = f"node-{number % self.nodes}"
        pod["spec"]["serviceAccountName"] = "default"
        self.api.create(f"/api/v1/namespaces/{namespace}/pods", pod)

    def path(self, number):
        cache, namespace = self.cache(number)
        return f"/api/v1/namespaces/{namespace}/pods/{cache}-6d9f7c5b8-{digest(number)[:5]}"

    def run_pod(self, number, restarts):
        """What a kubelet says of it."""
        cache, _ = self.cache(number)
        status = self.running(self.injected, number, restarts, self.image(cache))
        self.api.merge(self.path(number) + "/status", {"status": status})

    @staticmethod
    def running(pod, number, restarts, image="registry.example/app:7"):
        def statuses(containers):
            return [{"name": c["name"], "ready": True, "restartCount": restarts, "image": image, "started": True,
                     "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                     "imageID": f"{image}@sha256:{digest(image)}",
                     "containerID": f"containerd://{digest(number, c['name'])}"} for c in containers]
        address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        return {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
                "containerStatuses": statuses(pod["spec"]["containers"]),
                "initContainerStatuses": statuses(pod["spec"].get("initContainers", [])),
                "conditions": [{"type": t, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                               for t in ("Initialized", "Ready", "ContainersReady", "PodScheduled")]}

    def remove_pod(self, number):
        self.api.send("DELETE", self.path(number) + "?gracePeriodSeconds=0")

    def churn(self):
        """A fifth of the pods had a container restarted, a twentieth goes and comes back."""
        self.churns += 1
        self.each(range(0, self.pods, 5), lambda number: self.run_pod(number, self.churns))
        replaced = range(1, self.pods, 20)
        self.each(replaced, self.remove_pod)
        self.each(replaced, self.make_pod)

    def size(self, label):
        """Of a pod, in bytes, as the API server sends it."""
        page = self.api.send("GET", f"/api/v1/pods?limit=50&labelSelector={label}")
        return sum(len(json.dumps(pod, separators=(",", ":"))) for pod in page["items"]) // len(page["items"])

    def active_pods(self, number):
        name, namespace = self.cache(number)
        found = self.api.send("GET", f"{GROUP}/namespaces/{namespace}/compilecaches/{name}")
        return found.get("status", {}).get("activePods", 0)
