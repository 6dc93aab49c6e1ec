"""A RayCluster of a head and a worker, whose pods run no Ray: KubeRay is told to leave their command as it is. What its own init container
asks (`ray health-check`) is answered by a script."""

import json

import world

RAY = "#!/bin/sh\nexit 0\n"


class Controller:
    name, kind = "KubeRay", "raycluster"
    size = first_size = 2
    annotation = "`spec.headGroupSpec.template.metadata.annotations` and `spec.workerGroupSpecs[].template.metadata.annotations`"
    setting = ""

    def before(self, place):
        place.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ray", "namespace": place.ns}, "data": {"ray": RAY}})

    def make(self, place, name, cache, selector, annotations=None):
        self.size = 2
        template = self.template(name, cache, annotations)
        place.apply({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {
            "name": name, "namespace": place.ns, "annotations": {"ray.io/overwrite-container-cmd": "true"}}, "spec": {
                "headGroupSpec": {"rayStartParams": {}, "template": template},
                "workerGroupSpecs": [{"groupName": "workers", "replicas": 1, "minReplicas": 0, "maxReplicas": 4,
                                      "rayStartParams": {}, "template": template}]}})

    @staticmethod
    def template(name, cache, annotations):
        made = world.template(cache, {"pair": name}, annotations=annotations)
        app = made["spec"]["containers"][0]
        app["volumeMounts"] = [{"name": "ray", "mountPath": "/usr/local/bin/ray", "subPath": "ray"}]
        # Its own ask Ray's dashboard.
        for probe in ("readinessProbe", "livenessProbe"):
            app[probe] = {"exec": {"command": ["true"]}, "periodSeconds": 2}
        made["spec"]["volumes"] = [{"name": "ray", "configMap": {"name": "ray", "defaultMode": 0o755}}]
        return made

    def scale(self, place, names):
        for name in names:
            world.kubectl("patch", f"raycluster/{name}", "-n", place.ns, "--type=json", "-p", json.dumps(
                [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 2}]))
        self.size = 3

    def roll_out(self, place, names):
        """As its users do: deleted, and made anew."""
        for name, cache in names.items():
            world.kubectl("delete", "raycluster", name, "-n", place.ns)
            self.make(place, name, cache, None)

    def status(self, place, name):
        told = place.get("raycluster", name).get("status", {})
        return {"state": told.get("state", ""), "ready workers": told.get("readyWorkerReplicas", 0)}

    def more(self, place):
        """Its head is killed; the workers wait for the next one as they do without us."""
        seen = {}
        for name in ("plain", "annotated"):
            pods = place.running(f"pair={name}", self.size)
            head = [one for one in pods if one["metadata"]["labels"].get("ray.io/node-type") == "head"][0]
            workers = {one["metadata"]["uid"] for one in pods} - {head["metadata"]["uid"]}
            world.kubectl("delete", "pod", head["metadata"]["name"], "-n", place.ns, "--grace-period=1")
            pods = world.until(f"the next head of {name}", lambda whose=name, old=head: (
                found := place.running(f"pair={whose}", self.size)) and old["metadata"]["uid"] not in {
                    one["metadata"]["uid"] for one in found} and found)
            seen[name] = len(workers & {one["metadata"]["uid"] for one in pods})
        if seen["plain"] != seen["annotated"]:
            raise world.Wrong(f"head killed: of the annotated workers {seen['annotated']} stay, of the others {seen['plain']}")
        return f"its head killed: of {self.size - 1} worker {seen['annotated']} stays"
