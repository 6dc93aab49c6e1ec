"""Jobs, pods and a group of pods in a queue."""

import re

import world
from world import Wrong, merged, until

QUEUE = {"kueue.x-k8s.io/queue-name": "queue"}
GROUP = "kueue.x-k8s.io/pod-group-name"
ROLE = "kueue.x-k8s.io/role-hash"


def millicores(quantity):
    found = re.fullmatch(r"(\d+)(m?)", quantity)
    return int(found[1]) * (1 if found[2] else 1000)


class Controller:
    name, kind = "Kueue", "job"
    size = first_size = 2
    annotation = "the pod template (of a Job: `spec.template.metadata.annotations`); the queue's label stays on the Job"
    setting = ("pod groups: `kueue.x-k8s.io/role-hash: NAME` on each pod (one name for each role); Jobs: leave the queue room for what the "
               "saver requests (10m of CPU, 64Mi for each pod), which Kueue does not see in a template")

    def before(self, place):
        flavor, queue = place.ns, place.ns
        place.apply({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": flavor}})
        place.apply({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": queue}, "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place.ns}},
            "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": flavor, "resources": [
                {"name": "cpu", "nominalQuota": "2"}, {"name": "memory", "nominalQuota": "4Gi"}]}]}]}})
        place.apply({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
                     "metadata": {"name": "queue", "namespace": place.ns}, "spec": {"clusterQueue": queue}})

    def after(self, place):
        world.kubectl("delete", "clusterqueue", place.ns, "--wait=false", fails=True)
        world.kubectl("delete", "resourceflavor", place.ns, "--wait=false", fails=True)

    def make(self, place, name, cache, selector, annotations=None, parallelism=2):
        self.size = parallelism
        place.apply({"apiVersion": "batch/v1", "kind": "Job",
                     "metadata": {"name": name, "namespace": place.ns, "labels": QUEUE}, "spec": {
                         "suspend": True, "parallelism": parallelism, "completions": 3,
                         "template": world.template(cache, {"pair": name}, keep_running=False, annotations=annotations)}})

    def scale(self, place, names):
        """Kueue takes the Job's pods away and admits it anew with its new size."""
        self.size = 3
        for name in names:
            place.patch(f"job/{name}", {"spec": {"parallelism": 3}})

    def roll_out(self, place, names):
        for name, cache in names.items():
            world.kubectl("delete", "job", name, "-n", place.ns)
            self.make(place, name, cache, None)

    def status(self, place, name):
        told = place.get("job", name)
        return {"failed pods": told.get("status", {}).get("failed", 0), "suspended": told.get("spec", {}).get("suspend", False)}

    # ---- what the queue counts

    def counted(self, place, owner):
        """The CPU that the workload of the object holds, in thousandths."""
        def look():
            for one in place.get("workloads.kueue.x-k8s.io").get("items", []):
                if any(each["name"] == owner for each in one["metadata"].get("ownerReferences", [])):
                    admission = one.get("status", {}).get("admission")
                    if admission:
                        return sum(millicores(each["resourceUsage"]["cpu"]) for each in admission["podSetAssignments"])
            return None
        return until(f"a workload of {owner} that is admitted", look)

    def requested(self, pod):
        """What the scheduler counts: containers and sidecars, or an init container if that is more."""
        spec, sidecars, most = pod["spec"], 0, 0
        for one in spec.get("initContainers", []):
            cpu = millicores(one.get("resources", {}).get("requests", {}).get("cpu", "0"))
            if one.get("restartPolicy") == "Always":
                sidecars += cpu
            else:
                most = max(most, cpu + sidecars)
        sums = sum(millicores(one.get("resources", {}).get("requests", {}).get("cpu", "0")) for one in spec["containers"])
        return max(most, sums + sidecars)

    def pod(self, place, name, mode=None, group=None, role=None):
        labels = {**QUEUE, "app": name, **({GROUP: group} if group else {})}
        notes = {**({"compilecache.dev/mode": mode} if mode else {}), **({"kueue.x-k8s.io/pod-group-total-count": "2"} if group else {}),
                 **({ROLE: role} if role else {})}
        made = world.template("warm", labels, annotations=notes)
        place.make({"apiVersion": "v1", "kind": "Pod", **merged(made, {"metadata": {"name": name, "namespace": place.ns}})})

    def replaced(self, place, group, role):
        """Whether a pod that was not injected takes the place of one of the group that was and has failed."""
        names = [f"{group}-{one}" for one in "ab"]
        for name in names:
            self.pod(place, name, group=group, role=role)
        for name in names:
            place.running(f"app={name}", 1)
        world.kubectl("delete", "pod", names[0], "-n", place.ns, "--grace-period=1", "--wait=false")
        # As long as it runs the group has as many pods as it may have, and Kueue deletes another one as one too many.
        until("the end of the group's pod", lambda: place.get("pod", names[0]).get("status", {}).get("phase") == "Failed")
        self.pod(place, f"{group}-c", mode="Disabled", group=group, role=role)
        try:
            until("the replacement", lambda: any(map(world.is_ready, place.pods(f"app={group}-c"))), 30)
            return True
        except Wrong:
            return False

    def more(self, place):
        pods = place.running("pair=annotated", self.size)
        told = [f"of a Job's {len(pods)} pods the queue counts {self.counted(place, 'annotated')}m of CPU, they request {sum(map(self.requested, pods))}m"]
        self.pod(place, "single")
        [single] = place.running("app=single", 1)
        if not world.is_injected(single):
            raise Wrong("a pod with a scheduling gate was not injected")
        counted, requested = self.counted(place, "single"), self.requested(single)
        if counted != requested:
            raise Wrong(f"of a single pod the queue counts {counted}m of CPU, and it requests {requested}m")
        told.append(f"of a single pod {counted}m of {requested}m; its gate is taken away")
        if not self.replaced(place, "named", "worker"):
            raise Wrong("with a role named, a pod that is not injected does not replace one of its group")
        told.append("in a group of pods whose role is named, a pod that is not injected replaces one that was; without the name it "
                    + ("does too" if self.replaced(place, "unnamed", None) else "was not admitted within 30 s"))
        return "; ".join(told)
