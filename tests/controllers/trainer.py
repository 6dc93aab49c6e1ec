"""A TrainJob of two nodes, of the runtime torch-distributed as it is released. Its JobSet is JobSet's controller's."""

import world


class Controller:
    name, kind = "Kubeflow Trainer", "trainjob"
    size = first_size = 2
    annotation = "`spec.runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[].template.spec.template.metadata.annotations` of the TrainJob; " \
        "before v2.2: `spec.podTemplateOverrides[].metadata.annotations`"
    setting = ""

    def make(self, place, name, cache, selector, annotations=None):
        template = world.template(cache, {"pair": name}, annotations=annotations)
        app = template["spec"]["containers"][0]
        patch = {"name": "node", "template": {"spec": {"template": {"metadata": template["metadata"]}}}}
        place.apply({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": name, "namespace": place.ns}, "spec": {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {"numNodes": 2, "image": app["image"], "command": app["command"], "resourcesPerNode": app["resources"]},
            "runtimePatches": [{"manager": "example.com/tests", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [patch]}}}}]}})

    def scale(self, place, names):
        """A TrainJob keeps its size: it is suspended and goes on, with pods that are new."""
        for name in names:
            place.suspend_and_resume(f"trainjob/{name}", f"pair={name}")

    def roll_out(self, place, names):
        """As its users do: deleted, and made anew."""
        for name, cache in names.items():
            world.kubectl("delete", "trainjob", name, "-n", place.ns, "--cascade=foreground")
            self.make(place, name, cache, None)

    def status(self, place, name):
        told = place.get("trainjob", name).get("status", {}).get("conditions", [])
        return {"conditions": sorted(one["type"] for one in told if one["status"] == "True")}

    def more(self, place):
        """Its nodes end, and it is complete with our sidecar as without."""
        for name in ("annotated", "plain"):
            place.end(place.running(f"pair={name}", 2))
            world.until(f"{name} complete", lambda one=name: "Complete" in self.status(place, one)["conditions"])
        return "complete"
