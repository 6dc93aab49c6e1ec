"""What each controller is asked, of a pair: an object with our annotation and the same one without, in the same steps."""

import world
from world import Wrong, kill, restarts, until


class Pair:
    """`controller` makes and changes its objects (controllers/*.py); both of the pair go through each step."""

    def __init__(self, place, controller):
        self.place, self.controller = place, controller
        self.names = {"plain": None, "annotated": "warm"}
        self.before, self.seen = {}, {}

    def selector(self, name):
        return f"pair={name}"

    def pods(self, name):
        return self.place.running(self.selector(name), self.controller.size)

    def look(self, step):
        """What became of each object's pods since the step before; Wrong where the pair differs and goes on to."""
        found = {}

        def alike():
            found.update({name: self.observed(name) for name in self.names})
            return found["plain"] == found["annotated"]
        try:
            until("the same with the annotation as without it", alike, 30)
        except Wrong as error:
            raise Wrong(f"{step}: with the annotation {found.get('annotated')}, without it {found.get('plain')}: {error}") from error
        self.seen[step] = found["annotated"]
        for name in self.names:
            self.before[name] = {one["metadata"]["uid"] for one in self.pods(name)}

    def observed(self, name):
        pods = self.pods(name)
        new = {one["metadata"]["uid"] for one in pods} - self.before.get(name, set())
        return {"pods": len(pods), "new pods": len(new), "restarts of the application": sum(map(restarts, pods)),
                **self.controller.status(self.place, name)}

    def injected(self):
        for name, cache in self.names.items():
            self.controller.make(self.place, name, cache, self.selector)
        self.look("injected")
        if not all(map(world.is_injected, self.pods("annotated"))):
            raise Wrong("pods were not injected")
        if any(map(world.is_injected, self.pods("plain"))):
            raise Wrong("pods without the annotation were injected")
        self.place.saved("warm")

    def warm(self, pods):
        for pod in pods:
            if "warm" not in until(f"what {pod['metadata']['name']} says", lambda one=pod: self.place.said(one)):
                raise Wrong(f"{pod['metadata']['name']} started cold")

    def scaled(self):
        old = set(self.before["annotated"])
        self.controller.scale(self.place, self.names)
        self.look("warm and scaled")
        self.warm([one for one in self.pods("annotated") if one["metadata"]["uid"] not in old])

    def pod_killed(self):
        for name in self.names:
            victim = self.pods(name)[-1]
            world.kubectl("delete", "pod", victim["metadata"]["name"], "-n", self.place.ns, "--grace-period=1")
            until("the pod's end", lambda one=victim, whose=name: one["metadata"]["uid"] not in
                  {each["metadata"]["uid"] for each in self.place.pods(self.selector(whose))})
        old = set(self.before["annotated"])
        self.look("one pod killed")
        self.warm([one for one in self.pods("annotated") if one["metadata"]["uid"] not in old])

    def saver_killed(self):
        for pod in self.pods("annotated"):
            kill([pod], "compilecache-agent save")
        self.look("savers killed")
        if any(restarts(one, ours=True) for one in self.pods("annotated")):
            raise Wrong("a saver's container was started again")

    def saver_container_killed(self):
        """As when a node's memory is short: the whole container, which the kubelet starts again."""
        victim = self.pods("annotated")[0]
        kill([victim], "compilecache-supervise")
        until("the saver's restart", lambda: any(restarts(one, ours=True) for one in self.place.pods(self.selector("annotated"))))
        self.look("a saver's container killed")

    def rolled_out(self):
        old = set(self.before["annotated"])
        self.controller.roll_out(self.place, self.names)
        for name in self.names:
            until(f"{name} rolled out", lambda whose=name: not (self.before[whose] & {
                one["metadata"]["uid"] for one in self.place.pods(self.selector(whose))}) or None)
        self.look("rolled out")
        self.warm([one for one in self.pods("annotated") if one["metadata"]["uid"] not in old])

    def loader_killed(self):
        """Their work, as by a crash or for want of memory, while it waits for the first pod to save, which does not come to it."""
        self.place.cache("waits", {"save": {"quietPeriod": "10m"}, "load": {"waitForFirst": "60s"}})
        held = {"compilecache.dev/wait-for-first": "60s"}
        first = world.template("waits", {"app": "first"}, annotations=held)  # who waits for nobody is nobody's first
        self.place.make({"apiVersion": "v1", "kind": "Pod", **world.merged(first, {
            "metadata": {"name": "first", "namespace": self.place.ns}})})
        self.place.running("app=first", 1)
        self.names = {"late-plain": None, "late": "waits"}
        for name, cache in self.names.items():
            self.controller.make(self.place, name, cache, self.selector, held if cache else None)
        waiting = until("pods whose loaders wait", lambda: len(found := self.place.pods(self.selector("late"))) == self.controller.first_size and found)
        kill(waiting, "compilecache-agent load", work=True)
        found = {}
        for name in self.names:
            pods = self.place.running(self.selector(name), self.controller.first_size)
            found[name] = {"pods": len(pods), "restarts of the application": sum(map(restarts, pods)),
                           **self.controller.status(self.place, name)}
        if {one["metadata"]["uid"] for one in waiting} != {one["metadata"]["uid"] for one in self.place.pods(self.selector("late"))}:
            raise Wrong("pods whose loaders were killed were made anew")
        if found["late-plain"] != found["late"]:
            raise Wrong(f"loaders killed: with the annotation {found['late']}, without it {found['late-plain']}")

    ALL = [("injected", injected), ("warm and scaled", scaled), ("one pod killed", pod_killed), ("savers killed", saver_killed),
           ("a saver's container killed", saver_container_killed), ("rolled out", rolled_out), ("loaders killed", loader_killed)]
