"""A Rollout, canary by steps."""

import world


class Controller:
    name, kind = "Argo Rollouts", "rollout"
    size = first_size = 2
    annotation = "`spec.template.metadata.annotations` of the Rollout"
    setting = ""

    def make(self, place, name, cache, selector, annotations=None):
        self.size = 2
        place.apply({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": name, "namespace": place.ns}, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"pair": name}},
            "template": world.template(cache, {"pair": name}, annotations=annotations),
            "strategy": {"canary": {"steps": [{"setWeight": 50}, {"pause": {"duration": "3s"}}]}}}})

    def scale(self, place, names):
        self.size = 3
        for name in names:
            place.patch(f"rollout/{name}", {"spec": {"replicas": 3}})

    def roll_out(self, place, names):
        for name, cache in names.items():
            place.patch(f"rollout/{name}", {"spec": {"template": {"spec": world.template(cache, {}, version="2")["spec"]}}})

    def status(self, place, name):
        told = place.get("rollout", name).get("status", {})
        return {"aborted": told.get("abort", False)}
