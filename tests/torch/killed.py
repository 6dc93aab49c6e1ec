#!/usr/bin/env python3
"""Kills real torch in the middle of compiling while a saver runs, and looks what the next pod makes of what was saved.

  tests/torch/killed.py [--runs 50] [--seed N] [--agent PROGRAM]

Each run has an empty store. One process compiles into a cache directory that a saver watches; at a random moment
SIGKILL ends it (alone, or with its compilers), a little later SIGTERM ends the saver. Then the loader fills an empty
directory, and another process compiles the same: it must end well, with the right numbers. It finds what was saved or
compiles again; what a run that was not killed in time left must all be found. Where none of the runs was killed in time
there are more, until one was. Before, three cold runs are saved into one store: their union may be at most 1.1 times the
first archive.

Needs root (mounts, chroot) and the PyTorch image of tests/cluster. The seed is printed; the same seed makes the same
choices, though not the same moments.
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
PATIENCE = 600
# How a run may end, and what the next pod may make of it then.
ALLOWED = {"killed": {"hit", "recompiled", "nothing saved"}, "finished": {"hit"}}
MORE_RUNS = 10  # for one that is killed in time


class Failure(Exception):
    pass


class TorchServer:
    """app_server.py in the PyTorch image's files."""

    def __init__(self, work):
        self.process = subprocess.Popen([HERE + "/in_torch.sh", work, "python3", HERE + "/app_server.py"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.torch = self._read()["torch"]

    def _read(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failure("torch's process ended")
        return json.loads(line)

    def _write(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")

    def start(self, cache, result):
        self._write({"cache": cache, "result": result})
        return self._read()["pid"]

    def kill(self, pid, compilers):
        self._write({"kill": pid, "compilers": compilers})

    # Its exit status; negative: the signal that ended it.
    def wait(self, pid):
        answer = self._read()
        assert answer["ended"] == pid, answer
        return answer["status"]

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)


class Pod:
    """A cache directory with its control directory, on a store. The paths are the same for every pod."""

    def __init__(self, agent, work, store, quiet_ms=30000):
        self.agent = agent
        self.home = work + "/pod"
        self.cache = self.home + "/torch"
        shutil.rmtree(self.home, ignore_errors=True)
        os.makedirs(self.cache, 0o777)
        with open(PROJECT + "/tests/gpu/framework.json") as file:
            torch = json.load(file)[0]
        self.config = work + "/agent.json"
        with open(self.config, "w") as out:
            json.dump({"cache": "killed", "store": {"volume": {}}, "store_mount": store, "control_path": self.home + "/control",
                       "directories": [{"path": self.cache, "framework": torch}], "save": {"quietPeriod": f"{quiet_ms}ms"},
                       "key_basis": {"parts": ["Architecture"]}}, out)
        self.log = open(work + "/agent.log", "a")

    def run(self, command, *more):
        return subprocess.run([self.agent, command, "--config", self.config, *more], stdout=self.log,
                              stderr=self.log, timeout=PATIENCE, check=False).returncode

    def watch(self):
        return subprocess.Popen([self.agent, "save", "--config", self.config], stdout=self.log, stderr=self.log)

    def load(self):
        if self.run("load") != 0:
            raise Failure("the loader did not exit 0")
        with open(self.home + "/control/status.json") as file:
            return json.load(file)


def count_files(directory):
    return sum(len(files) for _, _, files in os.walk(directory))


def judge(ended, status, outcome):
    """What the next pod made of a run: how that ended, its loader's status, what torch counted."""
    loaded = status["outcome"] == "SUCCESS"
    if not loaded and status["outcome"] != "DOES_NOT_EXIST":
        raise Failure(f"what was saved could not be loaded: {status}")
    if loaded != (status["files"] > 0):
        raise Failure(f"an archive without files, or files without an archive: {status}")
    if not outcome["hits"] and not outcome["misses"]:
        raise Failure(f"torch neither found nor compiled anything: {outcome}")
    kind = "hit" if not outcome["misses"] else "recompiled" if loaded else "nothing saved"
    if kind == "hit" and not loaded:
        raise Failure("torch found something in an empty directory")
    if kind not in ALLOWED[ended]:
        raise Failure(f"torch {ended}, and the next pod's outcome is: {kind}; {status}")
    return kind


def archives(agent, store):
    shown = subprocess.run([agent, "inspect", store, "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(shown)["archives"]


class Trial:
    def __init__(self, options, work):
        self.agent, self.work = options.agent, work
        self.random = random.Random(options.seed)
        self.server = TorchServer(work)
        self.result = work + "/result.json"
        self.cold_files, self.cold_seconds = 0, 0.0

    def compile(self, pod):
        if os.path.exists(self.result):
            os.remove(self.result)
        started = time.monotonic()
        pid = self.server.start(pod.cache, self.result)
        status = self.server.wait(pid)
        if status != 0:
            with open(self.result + ".log") as log:
                raise Failure(f"torch ended with {status}:\n{log.read()[-4000:]}")
        with open(self.result) as file:
            return json.load(file) | {"seconds": time.monotonic() - started}

    def compile_and_kill(self, pod):
        """Ends it when so many files are there that a cold run makes, and a little later: "killed", or "finished"."""
        files = self.random.randint(0, self.cold_files)
        # Close to a file's creation, when g++ is writing it, or anywhere in the time to the next.
        delay = self.random.uniform(0, self.random.choice([0.05, 0.5, 2 * self.cold_seconds / self.cold_files]))
        pid = self.server.start(pod.cache, self.result)
        end = time.monotonic() + PATIENCE
        while count_files(pod.cache) < files and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(delay)
        self.server.kill(pid, self.random.random() < 0.7)
        status = self.server.wait(pid)
        if status not in (0, -signal.SIGKILL):
            raise Failure(f"torch ended with {status}")
        return "killed" if status else "finished"

    def run(self, number):
        store = f"{self.work}/store"
        shutil.rmtree(store, ignore_errors=True)
        quiet = self.random.choice([100, 300, 1000, 30000])
        pod = Pod(self.agent, self.work, store, quiet)
        pod.load()
        saver = pod.watch()
        ended = self.compile_and_kill(pod)
        left = count_files(pod.cache)
        time.sleep(self.random.uniform(0, 1))
        saver.send_signal(signal.SIGTERM)
        if saver.wait(60) != 0:
            raise Failure("the saver did not exit 0")
        next_pod = Pod(self.agent, self.work, store)
        status = next_pod.load()
        outcome = self.compile(next_pod)
        kind = judge(ended, status, outcome)
        print(f"run {number}: {ended} with {left} files, quiet period {quiet} ms; "
              f"loaded {status['files']} files: {kind} in {outcome['seconds']:.1f} s", flush=True)
        return ended, kind

    def run_all(self, count):
        kinds = collections.Counter()
        for number in range(1, count + MORE_RUNS + 1):
            if number > count and any(ended == "killed" for ended, _ in kinds):
                break
            kinds[self.run(number)] += 1
        if count and not any(ended == "killed" for ended, _ in kinds):
            raise Failure(f"torch was never killed in time, so this asked nothing: {dict(kinds)}")
        told = {f"{ended}, {kind}": times for (ended, kind), times in kinds.items()}
        print(f"{sum(kinds.values())} runs: {told}; none crashed", flush=True)

    def measure_cold(self):
        pod = Pod(self.agent, self.work, self.work + "/store")
        outcome = self.compile(pod)
        if outcome["hits"] or not outcome["misses"]:
            raise Failure(f"a run in an empty directory was not cold: {outcome}")
        self.cold_files, self.cold_seconds = count_files(pod.cache), outcome["seconds"]
        print(f"torch {self.server.torch}: a cold run makes {self.cold_files} files in {outcome['seconds']:.1f} s",
              flush=True)

    def union(self):
        store = self.work + "/union"
        sizes = []
        for _ in range(3):
            pod = Pod(self.agent, self.work, store)
            if self.compile(pod)["misses"] == 0:
                raise Failure("a run in an empty directory was not cold")
            if pod.run("save", "--once") != 0:
                raise Failure("saving failed")
            sizes.append(archives(self.agent, store)[0])
        growth = sizes[-1]["compressedBytes"] / sizes[0]["compressedBytes"]
        print(f"three cold runs united: {[size['compressedBytes'] for size in sizes]} bytes, "
              f"{[size['files'] for size in sizes]} files: {growth:.3f} times the first", flush=True)
        pod = Pod(self.agent, self.work, store)
        pod.load()
        outcome = self.compile(pod)
        if outcome["misses"] or not outcome["hits"]:
            raise Failure(f"the union was not used: {outcome}")
        if growth > 1.1:
            raise Failure(f"the union of three cold runs is {growth:.3f} times the archive of one; allowed are 1.1")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--agent", default=PROJECT + "/build/agent/compilecache-agent")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    work = tempfile.mkdtemp(prefix="compilecache-killed-")
    failed = True
    try:
        trial = Trial(options, work)
        trial.measure_cold()
        trial.union()
        trial.run_all(options.runs)
        trial.server.close()
        failed = False
    except Failure as failure:
        print(f"FAILED: {failure}\nwhat was there is in {work}", flush=True)
    finally:
        if not failed:
            shutil.rmtree(work)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
