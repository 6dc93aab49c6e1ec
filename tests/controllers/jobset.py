"""A JobSet of two workers, with a failure policy that counts."""

import world


class Controller:
    name, kind = "JobSet", "jobset"
    size = first_size = 2
    annotation = "`spec.replicatedJobs[].template.spec.template.metadata.annotations`"
    setting = "not tried: `InPlaceRestart` (alpha), whose agent counts the restarts of init containers"

    def make(self, place, name, cache, selector, annotations=None):
        self.size = 2
        place.apply({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name, "namespace": place.ns}, "spec": {
            "failurePolicy": {"maxRestarts": 3},
            "replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": {
                "parallelism": 2, "completions": 2, "backoffLimit": 0,
                "template": world.template(cache, {"pair": name}, keep_running=False, annotations=annotations)}}}]}})

    def scale(self, place, names):
        """A JobSet keeps its size: it is suspended and goes on, with pods that are new."""
        for name in names:
            place.suspend_and_resume(f"jobset/{name}", f"pair={name}")

    def roll_out(self, place, names):
        """As its users do: deleted, and made anew."""
        for name, cache in names.items():
            world.kubectl("delete", "jobset", name, "-n", place.ns)
            self.make(place, name, cache, None)

    def status(self, place, name):
        told = place.get("jobset", name).get("status", {})
        return {"restarts of the JobSet": told.get("restarts", 0), "state": told.get("terminalState", "")}

    def more(self, place):
        """Its jobs end, and it is completed with our sidecar as without."""
        for name in ("annotated", "plain"):
            place.end(place.running(f"pair={name}", 2))
            world.until(f"{name} completed", lambda one=name: self.status(place, one)["state"] == "Completed")
        return "completed"
