"""A LLMInferenceService on one node, with the release's own preset of the server and without a router. No model is fetched."""

import world
from world import until

# The answers to the preset's probes.
HEALTH = """perl -MIO::Socket::INET -e '
  $server = IO::Socket::INET->new(LocalPort => 8000, Listen => 5, ReuseAddr => 1) or die;
  while ($one = $server->accept) { while (<$one>) { last if /^\\r?$/ } print $one "HTTP/1.0 200 OK\\r\\n\\r\\n"; close $one }' &
"""


class Controller:
    name, kind = "KServe's LLMInferenceService", "llminferenceservice"
    size = first_size = 2
    annotation = "`spec.annotations` of the LLMInferenceService; `spec.prefill.annotations` where prefill has pods of its own"
    setting = ""

    def make(self, place, name, cache, selector, annotations=None):
        self.size = 2
        template = world.template(cache, {"pair": name}, annotations=annotations)
        self.apply(place, name, {"replicas": 2, **template["metadata"], "template": self.server(template)})

    @staticmethod
    def apply(place, name, spec, annotations=None):
        place.apply({"apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
                     "metadata": {"name": name, "namespace": place.ns, "annotations": annotations or {}},
                     "spec": {"model": {"uri": "hf://none/none", "name": "none"}, "storageInitializer": {"enabled": False}, **spec}})

    @staticmethod
    def server(template):
        app = template["spec"]["containers"][0]
        app.update(name="main", command=["sh", "-c", HEALTH + world.APP])
        return template["spec"]

    def scale(self, place, names):
        for name in names:
            place.patch(f"llminferenceservice/{name}", {"spec": {"replicas": 3}})
        self.size = 3

    def roll_out(self, place, names):
        for name, cache in names.items():
            place.patch(f"llminferenceservice/{name}", {"spec": {"template": self.server(world.template(cache, {}, version="2"))}})

    def status(self, place, name):
        told = place.get("llminferenceservice", name).get("status", {}).get("conditions", [])
        return {"ready": [one["status"] for one in told if one["type"] == "WorkloadsReady"]}

    def more(self, place):
        """Which annotations reach pods; these have a container of an image that is not here, and need not start."""
        self.apply(place, "apart", {"labels": {"app": "decode"}, "prefill": {"labels": {"app": "prefill"}, "annotations": {
            world.CACHE: "warm"}}}, annotations={world.CACHE: "warm"})
        injected = {app: all(map(world.is_injected, until(f"pods of {app}", lambda one=app: place.pods(f"app={one}"))))
                    for app in ("prefill", "decode")}
        if injected != {"prefill": True, "decode": False}:
            raise world.Wrong(f"which pods are injected: {injected}")
        return "`spec.prefill.annotations` reach its pods, those of the object's own metadata none"
