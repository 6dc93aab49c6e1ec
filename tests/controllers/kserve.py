"""An InferenceService whose predictor is a container of its own, as a Deployment (deploymentMode Standard), without Knative."""

import world


class Controller:
    name, kind = "KServe", "inferenceservice"
    size = first_size = 2
    annotation = "`spec.predictor.annotations` of the InferenceService"
    setting = ""

    def make(self, place, name, cache, selector, annotations=None):
        self.size = 2
        template = world.template(cache, {"pair": name}, annotations=annotations)
        place.apply({"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {
            "name": name, "namespace": place.ns, "annotations": {"serving.kserve.io/deploymentMode": "Standard",
                                                                 "serving.kserve.io/autoscalerClass": "none"}},
            "spec": {"predictor": {"minReplicas": 2, **template["metadata"], **self.predictor(template)}}})

    @staticmethod
    def predictor(template):
        app = template["spec"]["containers"][0]
        # Its own asks a server's port.
        app.update(name="kserve-container", readinessProbe={"exec": {"command": ["true"]}, "periodSeconds": 2})
        return template["spec"]

    def scale(self, place, names):
        for name in names:
            place.patch(f"inferenceservice/{name}", {"spec": {"predictor": {"minReplicas": 3}}})
        self.size = 3

    def roll_out(self, place, names):
        for name, cache in names.items():
            containers = self.predictor(world.template(cache, {}, version="2"))["containers"]
            place.patch(f"inferenceservice/{name}", {"spec": {"predictor": {"containers": containers}}})

    def status(self, place, name):
        told = place.get("inferenceservice", name).get("status", {}).get("conditions", [])
        return {"ready": [one["status"] for one in told if one["type"] == "PredictorReady"]}
