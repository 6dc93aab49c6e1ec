#!/usr/bin/env python3
"""Compiles cold, saves, loads and compiles again; compares what the agent says of each run with torch's counters.

Started by run.sh, which finds out whether there is a GPU.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


class Pod:
    """Cache directories and a control directory at fixed paths, on one store."""

    def __init__(self, options, work):
        self.options = options
        self.home = work + "/pod"
        with open(HERE + "/framework.json") as file:
            frameworks = json.load(file)
        self.directories = [{"path": f"{self.home}/{f['name']}", "framework": f} for f in frameworks]
        self.config = work + "/agent.json"
        with open(self.config, "w") as out:
            json.dump({"cache": "gpu", "store": {"volume": {}}, "store_mount": work + "/store", "control_path": self.home + "/control",
                       "directories": self.directories, "key_basis": {"parts": ["Architecture"]}}, out)

    def agent(self, *arguments):
        done = subprocess.run([self.options.agent, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def begin(self):
        """An empty pod: the same paths, nothing in them, then what the archive has."""
        shutil.rmtree(self.home, ignore_errors=True)
        os.makedirs(self.home)
        self.agent("load", "--config", self.config)
        with open(self.home + "/control/status.json") as file:
            return json.load(file)

    def compile(self, *more):
        environment = dict(os.environ)
        for directory in self.directories:
            for name, value in directory["framework"]["env"].items():
                environment[name] = value.replace("{directory}", directory["path"])
        options = self.options
        done = subprocess.run(
            [sys.executable, HERE + "/transformer.py", "--device", options.device, "--width", str(options.width),
             "--layers", str(options.layers), "--modes", options.modes, "--passes", options.passes,
             *more],
            env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"torch ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        return json.loads(done.stdout.splitlines()[-1])

    def effect(self):
        return json.loads(self.agent("effect", "--config", self.config, "--json"))

    def save(self):
        self.agent("save", "--once", "--config", self.config)
        return json.loads(self.agent("inspect", "--json", os.path.dirname(self.config) + "/store"))["archives"][0]


MOSTLY_REUSED = 0.75  # of a cold start's seconds; the agent, which goes by the times of files, takes half


def what_happened(outcome, loaded):
    """In the agent's words, from torch's counters alone."""
    hits = outcome["inductor"].get("fxgraph_cache_hit", 0)
    misses = outcome["inductor"].get("fxgraph_cache_miss", 0)
    if not loaded:
        return "none" if misses else "unused"
    if hits:
        return "partial" if misses else "full"
    return "none" if misses else "unused"


def tree_size(directory):
    sizes = [os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(directory) for name in names]
    return len(sizes), sum(sizes)


class Table:
    def __init__(self):
        self.wrong = []
        self.cold_seconds = None

    def row(self, name, outcome, status, effect, pod):
        loaded = status["outcome"] == "SUCCESS"
        really = what_happened(outcome, loaded)
        said = effect["effect"]
        files, size = tree_size(pod.home)
        print(f"\n{name}: {status['files']} files loaded in {status['milliseconds']} ms; "
              f"now {files} files, {size} bytes")
        print("  seconds      " + ", ".join(f"{case} {seconds}" for case, seconds in outcome["seconds"].items()))
        print(f"  inductor     {outcome['inductor']}\n  aot_autograd {outcome['aot_autograd']}")
        print(f"  triton       {outcome['triton']}")
        print(f"  effect       {said} (entries: {effect['loadedEntries']} loaded, {effect['readEntries']} read, "
              f"{effect['newEntries']} new); by torch's counters: {really}", flush=True)
        seconds = sum(outcome["seconds"].values())
        self.cold_seconds = self.cold_seconds or seconds
        # No entry serves, but files beside them do, such as headers: the agent goes by the time that compiling took.
        mostly_reused = (said, really) == ("partial", "none") and seconds < MOSTLY_REUSED * self.cold_seconds
        if loaded and said != really and not mostly_reused:
            self.wrong.append(f"{name}: the agent says {said}, torch's counters say {really}")
        return really

    def expect(self, name, really, wanted):
        if really != wanted:
            self.wrong.append(f"{name}: expected {wanted}, it was {really}")


def measure(options, work):
    pod, table = Pod(options, work), Table()
    lengths = ["--lengths", str(options.length)]
    both = ["--lengths", f"{options.length},{options.length + 32}"]

    status = pod.begin()
    cold = pod.compile(*lengths)
    print(f"torch {cold['torch']} on {cold['device']}")
    table.expect("cold", table.row("cold", cold, status, pod.effect(), pod), "none")
    archive = pod.save()
    print(f"\nsaved: {archive['files']} files, {archive['plainBytes']} bytes plain, "
          f"{archive['compressedBytes']} stored")

    for name, arguments, wanted in (
            ("warm", lengths, "full"),
            ("a new shape as well", both, "partial"),
            ("a changed setting", [*lengths, "--setting", "max_fusion_size=32"], "none")):
        status = pod.begin()
        if status["outcome"] != "SUCCESS":
            raise SystemExit(f"the archive was not loaded: {status}")
        outcome = pod.compile(*arguments)
        table.expect(name, table.row(name, outcome, status, pod.effect(), pod), wanted)
        if name == "warm":
            again = pod.save()
            grown = again["files"] - archive["files"]
            print(f"  saved again: {grown} files more")
    return table.wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agent", required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--modes", default="default,max-autotune")
    parser.add_argument("--passes", default="forward,training")
    options = parser.parse_args()
    options.agent = os.path.abspath(options.agent)
    work = tempfile.mkdtemp(prefix="compilecache-gpu-")
    try:
        wrong = measure(options, work)
    finally:
        shutil.rmtree(work)
    for line in wrong:
        print(f"WRONG: {line}")
    print("\nas it should be" if not wrong else "\nFAILED")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
