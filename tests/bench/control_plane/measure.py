#!/usr/bin/env python3
"""What the operator costs beside programs of controller-runtime on the same API server. Called by run.sh."""

import argparse
import glob
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from cluster import Api, World

PLAIN_PORT = 19080
PATIENCE = 300


class Program:
    """A program under measurement; its output lies in a file."""

    def __init__(self, command, environment, log):
        self.log = log
        self.began = time.monotonic()
        with open(log, "w", encoding="utf-8") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, **environment})

    def text(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def wait(self, what, happened):
        """The seconds from the start until that happened."""
        while not happened():
            if self.process.poll() is not None or time.monotonic() - self.began > PATIENCE:
                raise RuntimeError(f"not {what}:\n{self.text()[-3000:]}")
            time.sleep(0.01)
        return time.monotonic() - self.began

    def says(self, word):
        return self.wait(word, lambda: word in self.text())

    def cpu(self):
        """Seconds of processor time so far, of threads that still run."""
        total = 0
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/schedstat"):
            try:
                with open(path, encoding="utf-8") as file:
                    total += int(file.read().split()[0])
            except FileNotFoundError:
                pass  # has just ended
        return total / 1e9

    def memory(self, name="VmRSS"):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) / 1024 for line in file if line.startswith(name))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Operator(Program):
    name = "operator"

    def __init__(self, arguments, folder, world):
        self.caches = world.caches
        super().__init__(
            [arguments.operator, "--settings", arguments.root + "/config/settings.yaml", "--kubeconfig",
             arguments.operator_kubeconfig, "--namespace", "compilecache-system", "--image", "example.com/compilecache:1",
             "--agent-address", "10.1.2.3", "--advertise-address", "10.1.2.3", "--listen-address", "127.0.0.1",
             "--webhook-port", "19443", "--agent-port", "19444", "--plain-port", str(PLAIN_PORT), "--drain", "0s"],
            json.loads(arguments.operator_environment), folder + "/operator.log")

    def looked(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{PLAIN_PORT}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("compilecache_reconcile_total"))

    def catch_up(self):
        synced = self.says('"leading","caches"')
        cpu = self.cpu()
        return {"synced": synced, "cpu": cpu, "looked": self.wait("looked", lambda: self.looked() >= self.caches)}


class Peer(Program):
    def __init__(self, variant, arguments, folder, world):
        self.name = variant
        super().__init__([arguments.peer, "-variant", variant, "-caches", str(world.caches)],
                         {"KUBECONFIG": arguments.kubeconfig}, f"{folder}/{variant}.log")

    def catch_up(self):
        synced = self.says("synced")
        return {"synced": synced, "cpu": self.cpu(), "looked": self.says("looked")}


def latency(world):
    """From the creation of a pod until its CompileCache's status counts it."""
    took = []
    for number in range(world.pods, world.pods + 5):  # of five CompileCaches
        before = world.active_pods(number)
        began = time.monotonic()
        world.make_pod(number)
        while world.active_pods(number) <= before:
            if time.monotonic() - began > 60:
                raise RuntimeError("a new pod was not counted within a minute")
            time.sleep(0.02)
        took.append(time.monotonic() - began)
        world.remove_pod(number)
    return took


def measure(start, world, arguments):
    program = start()
    print(f"measuring {program.name}", file=sys.stderr)
    try:
        row = {"name": program.name, **program.catch_up()}
        time.sleep(arguments.settle)
        row["memory"], busy = program.memory(), program.cpu()
        time.sleep(arguments.idle)
        row["idle"] = (program.cpu() - busy) / arguments.idle * 100
        busy = program.cpu()
        world.churn()
        row["in_churn"] = program.memory()
        time.sleep(arguments.settle)
        row["churn_cpu"] = program.cpu() - busy
        row["after"], row["peak"] = program.memory(), program.memory("VmHWM")
        if program.name == Operator.name:
            row["latency"] = latency(world)
        return row
    finally:
        program.end()


COLUMNS = (("synced", "synced", "{:.2f} s"), ("looked", "all looked at", "{:.2f} s"), ("cpu", "CPU to sync", "{:.2f} s"),
           ("idle", "idle CPU", "{:.2f} %"), ("memory", "memory", "{:.0f} MiB"), ("in_churn", "in churn", "{:.0f} MiB"),
           ("after", "after it", "{:.0f} MiB"), ("peak", "highest", "{:.0f} MiB"), ("churn_cpu", "CPU of churn", "{:.2f} s"))


def median(rows, name, key):
    return statistics.median(row[key] for row in rows if row["name"] == name)


def report(rows):
    names = list(dict.fromkeys(row["name"] for row in rows))
    print("| | " + " | ".join(title for _, title, _ in COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for name in names:
        print(f"| {name} | " + " | ".join(form.format(median(rows, name, key)) for key, _, form in COLUMNS) + " |")
    took = [one for row in rows for one in row.get("latency", [])]
    if took:
        print(f"\nfrom a pod's creation to its CompileCache's status: median {statistics.median(took):.1f} s, "
              f"longest {max(took):.1f} s")
    if set(names) != {"operator", "default", "selector", "metadata"}:
        return

    def of(name, key):
        return median(rows, name, key)
    print()
    for text, value, aim in (
            ("memory, MiB", of("operator", "memory"), 48),
            ("memory / default", of("operator", "memory") / of("default", "memory"), 1 / 8),
            ("memory / metadata", of("operator", "memory") / of("metadata", "memory"), 2 / 3),
            ("after the churn, MiB", of("operator", "after"), 48),
            ("after the churn / default", of("operator", "after") / of("default", "after"), 1 / 8),
            ("after the churn / metadata", of("operator", "after") / of("metadata", "after"), 2 / 3),
            ("synced / selector", of("operator", "synced") / of("selector", "synced"), 1),
            ("idle CPU, % of a core", of("operator", "idle"), 0.5)):
        print(f"{text:28}{value:8.3f}   aim {aim:7.3f}   {'reached' if value <= aim else 'missed'}")


def parse_arguments():
    parser = argparse.ArgumentParser()
    for name in ("root", "kubectl", "kubeconfig", "operator", "operator-kubeconfig", "operator-environment", "peer"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--settle", type=float, default=10)
    parser.add_argument("--idle", type=float, default=60)
    parser.add_argument("--made", action="store_true", help="the objects are there")
    parser.add_argument("--only", nargs="+", default=["operator", "default", "selector", "metadata"])
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    world = World(Api([arguments.kubectl]), arguments.root, arguments.scale)
    began = time.monotonic()
    if not arguments.made:
        world.make()
    print(f"{world.pods} pods with our label ({world.size('compilecache.dev/cache')} bytes each), {world.pods} without "
          f"({world.size('!compilecache.dev/cache')} bytes), {world.nodes} nodes, {world.caches} CompileCaches, "
          f"{world.caches * world.archives_each} archives: made in {time.monotonic() - began:.0f} s\n")
    with tempfile.TemporaryDirectory() as folder:
        def start(name):
            if name == Operator.name:
                return lambda: Operator(arguments, folder, world)
            return lambda: Peer(name, arguments, folder, world)
        # Statuses and certificates as an operator leaves them that ran before.
        first = Operator(arguments, folder, world)
        try:
            first.catch_up()
            time.sleep(arguments.settle)
        finally:
            first.end()
        rows = [measure(start(name), world, arguments) for _ in range(arguments.rounds) for name in arguments.only]
    report(rows)


if __name__ == "__main__":
    main()
