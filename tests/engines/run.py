#!/usr/bin/env python3
"""Real engines from PyPI: cold, warm with a cache that was kept, and warm with what our loader put into empty folders.

  tests/engines/run.py [NAME[==RELEASE]...] [--agent PROGRAM] [--table FILE]

Without a name: each engine's first release. Each runs in a virtual environment of its own, made once below
${COMPILECACHE_CACHE:-~/.cache/compilecache}/engines. Fails where a pod that we gave the cache finds less of it than one that
kept it, or where the effect that we tell is not what the engine itself counts. Without PyPI: NOT RUN, exit status 77.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import yaml

sys.dont_write_bytecode = True  # nothing is left beside the sources
from environment import Environment, Missing

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
NOT_RUN = 77
LONGEST_RUN = 900
# What the settings call by one name and agents by another: keyParts is key_parts.
AGENTS_WORDS = ["directoryVariable", "entryDirectories", "entryFiles", "derivedFiles", "notCompiled", "neverPack",
                "temporary", "buildDirectories", "completions", "elfFiles", "keyFactors"]


def agents_word(name):
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)


def framework(name):
    """As the operator's settings describe it, in the agents' words."""
    with open(PROJECT + "/config/settings.yaml", encoding="utf-8") as file:
        described = yaml.safe_load(file)["frameworks"][name]
    known = {agents_word(word): described[word] for word in AGENTS_WORDS if word in described}
    return {"name": name, "env": described["env"], **known}


class Engine:
    def __init__(self, name, release=None):
        self.name, self.folder = name, f"{HERE}/{name}"
        with open(self.folder + "/engine.json", encoding="utf-8") as file:
            told = json.load(file)
        self.release = release or next(iter(told["releases"]))
        self.environment = Environment(name, self.release, told)
        self.frameworks = [framework(one) for one in told["frameworks"]]
        self.variables = told.get("env", {})


class Pod:
    """One pod after another, at the same paths as real ones are: for some engines (JAX) those are part of the key."""

    def __init__(self, engine, agent, work):
        self.engine, self.agent, self.home = engine, agent, f"{work}/pod"
        self.directories = [{"path": f"{self.home}/cache/{one['name']}", "framework": one} for one in engine.frameworks]
        self.config = work + "/agent.json"
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump({"cache": "engine", "store": {"volume": {}}, "store_mount": work + "/store",
                       "control_path": self.home + "/control", "directories": self.directories,
                       "key_basis": {"parts": ["Architecture"]}}, file)

    def ask(self, *words):
        done = subprocess.run([self.agent, *words, "--config", self.config], capture_output=True, text=True, check=False,
                              timeout=LONGEST_RUN)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def begin(self):
        """An empty pod, and what became of its load."""
        shutil.rmtree(self.home, ignore_errors=True)
        os.makedirs(self.home)
        self.ask("load")
        with open(self.home + "/control/status.json", encoding="utf-8") as file:
            return json.load(file)

    def effect(self):
        return json.loads(self.ask("effect", "--json"))

    def variables(self):
        """As the webhook sets them: of two frameworks with one variable the first counts."""
        found = {}
        for directory in self.directories:
            for name, value in directory["framework"]["env"].items():
                found.setdefault(name, value.replace("{directory}", directory["path"]))
        return found

    def run(self, python):
        """What the engine's application says of itself in its last line, in JSON."""
        for directory in self.directories:
            os.makedirs(directory["path"], exist_ok=True)
        environment = {**os.environ, **self.variables(), **self.engine.variables, "HOME": self.home, "USER": "engine"}
        began = time.monotonic()
        done = subprocess.run([python, self.engine.folder + "/app.py"], env=environment, capture_output=True, text=True,
                              check=False, timeout=LONGEST_RUN, cwd=self.home)
        if done.returncode != 0:
            raise SystemExit(f"{self.engine.name} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-8000:]}")
        said = json.loads(done.stdout.splitlines()[-1])
        said["all_seconds"] = time.monotonic() - began
        return said


def judge(cold, local, ours, effect):
    """What is not as it must be, in sentences."""
    wrong = []
    if cold["misses"] == 0:
        wrong.append("a cold start misses nothing: this asks nothing")
    if local["hits"] == 0:
        wrong.append("the engine does not use a cache of its own that was kept")
    if ours["hits"] < local["hits"] or ours["misses"] > local["misses"]:
        wrong.append(f"with what we loaded {ours['hits']} hits and {ours['misses']} misses, with what was kept "
                     f"{local['hits']} and {local['misses']}")
    really = ("partial" if ours["misses"] else "full") if ours["hits"] else "none"
    if effect["effect"] != really:
        wrong.append(f"we tell the effect {effect['effect']}; by what the engine counts it is {really}")
    return wrong


def measure(engine, agent):
    """One row of the table, and what is wrong with it."""
    try:
        python = engine.environment.made()
    except Missing:
        return None, []
    with tempfile.TemporaryDirectory(prefix="compilecache-engine-") as work:
        pod = Pod(engine, agent, work)
        pod.begin()
        cold = pod.run(python)
        told = pod.effect()
        pod.ask("save", "--once")
        archive = json.loads(subprocess.run([agent, "inspect", "--json", work + "/store"], capture_output=True, text=True,
                                            check=True).stdout)["archives"][0]
        local = pod.run(python)
        status = pod.begin()
        if status["outcome"] != "SUCCESS":
            return None, [f"the archive was not loaded: {status}"]
        ours = pod.run(python)
        effect = pod.effect()
    row = {"engine": engine.name, "release": cold.get("release", engine.release),
           "cold": cold, "local": local, "ours": ours, "effect": effect["effect"],
           "compile_seconds_told": told.get("compileSeconds"), "files": archive["files"],
           "stored": archive["compressedBytes"], "load_ms": status["milliseconds"]}
    return row, judge(cold, local, ours, effect)


def table(rows):
    lines = ["| engine | release | cold s | kept s | through us s | compiling cold s: its own count | ours |"
             " hits, misses: kept | through us | effect | files | bytes stored | load ms |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        lines.append(f"| {row['engine']} | {row['release']} | " +
                     " | ".join(f"{row[case]['seconds']:.1f}" for case in ("cold", "local", "ours")) +
                     f" | {row['cold']['compile_seconds']:.1f} | {row['compile_seconds_told'] or 0:.1f}"
                     f" | {row['local']['hits']}, {row['local']['misses']} | {row['ours']['hits']}, {row['ours']['misses']}"
                     f" | {row['effect']} | {row['files']} | {row['stored']} | {row['load_ms']} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="NAME or NAME==RELEASE")
    parser.add_argument("--agent", default=PROJECT + "/build/agent/compilecache-agent")
    parser.add_argument("--table", help="write the table to this file too")
    options = parser.parse_args()
    names = options.names or sorted(one for one in os.listdir(HERE) if os.path.exists(f"{HERE}/{one}/engine.json"))
    rows, wrong, not_run = [], [], []
    for name in names:
        engine = Engine(*name.split("==", 1))
        row, faults = measure(engine, os.path.abspath(options.agent))
        wrong += [f"{engine.name} {engine.release}: {fault}" for fault in faults]
        if row is not None:
            rows.append(row)
            print(json.dumps(row), flush=True)
        elif not faults:
            not_run.append(f"{engine.name} {engine.release}")
    print("\n" + table(rows), end="")
    if options.table:
        with open(options.table, "w", encoding="utf-8") as file:
            file.write(table(rows))
    for one in not_run:
        print(f"NOT RUN: {one}: PyPI does not give its packages")
    for one in wrong:
        print(f"FAILED: {one}")
    if wrong:
        return 1
    return NOT_RUN if not rows else 0


if __name__ == "__main__":
    sys.exit(main())
