#!/usr/bin/env python3
"""Real engines from PyPI: cold, warm with a cache that was kept, and warm with what our loader put into empty folders.

  tests/engines/run.py [NAME[/VARIANT][==RELEASE]...] [--agent PROGRAM] [--table FILE] [--page docs/reference/engines.md]

Without a name: each engine's first release. Each runs in a virtual environment of its own, made once below
${COMPILECACHE_CACHE:-~/.cache/compilecache}/engines. Fails where a pod that we gave the cache finds less of it than one that
kept it, or where the effect that we tell is not what the engine itself counts. Without PyPI: NOT RUN, exit status 77.
"""

import argparse
import datetime
import fnmatch
import json
import os
import re
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
NOTICED = 5  # seconds of compiling that we tell although all entries were found
# With so much CPU time of compilers no pod is full: this many seconds, or this share of a cold start's. The saver goes by the times
# of files instead: 30 s, or a tenth.
ALWAYS_NOTICED = 60
NOTICED_SHARE = 0.2
MOST_ROUNDS = 4  # pods, one after the other, until there is nothing new to save
# The settings and agents spell names differently: keyParts is key_parts.
AGENTS_WORDS = ["directoryVariable", "entryDirectories", "entryFiles", "derivedFiles", "notCompiled", "namedByContent", "rankDirectories", "neverPack",
                "temporary", "buildDirectories", "completions", "elfFiles", "portableFiles", "streamFiles", "unitDirectories", "indexFiles",
                "onlyFromWarm", "mustAgree", "keyFactors"]


class Broken(Exception):
    """Something ended that should not have, with what it said."""


def agents_word(name):
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)


def framework(name, start_kit):
    """As the operator's settings describe it, in the agents' words; its variables with those of its start kit, or without."""
    with open(PROJECT + "/config/settings.yaml", encoding="utf-8") as file:
        described = yaml.safe_load(file)["frameworks"][name]
    known = {agents_word(word): described[word] for word in AGENTS_WORDS if word in described}
    kit = {variable: one["value"] for variable, one in described.get("startKit", {}).items()} if start_kit else {}
    return {"name": name, "env": {**described["env"], **kit}, **known}


class Engine:
    def __init__(self, name, release=None):
        """`name` may have a variant: "vllm/experts"."""
        self.name = name
        name, _, variant = name.partition("/")
        self.folder = f"{HERE}/{name}"
        with open(self.folder + "/engine.json", encoding="utf-8") as file:
            told = json.load(file)
        self.release = release or next(iter(told["releases"]))
        self.environment = Environment(name, self.release, told)
        self.frameworks = [framework(one, told.get("startKit", False)) for one in told["frameworks"]]
        self.variables = {**told.get("env", {}), **(told["variants"][variant] if variant else {})}
        self.known_outside = told.get("outside", [])
        self.can_do_more = told.get("more", False)
        self.other_cpu = told.get("otherCpu")
        self.cut_off = told.get("cutOff")
        self.needs_gpu = told.get("needsGpu")


class Pod:
    """One pod after another, at the same paths as real ones are: for some engines (JAX) those are part of the key."""

    def __init__(self, engine, agent, work):
        self.engine, self.agent, self.home = engine, agent, f"{work}/pod"
        self.directories = [{"path": f"{self.home}/cache/{one['name']}", "framework": one} for one in engine.frameworks]
        self.config, self.store = work + "/agent.json", work + "/store"
        self.image, self.cpu_variables = "engine:1", []
        self.write_configuration()

    def configure(self, cpu_variables):
        self.cpu_variables = cpu_variables
        self.write_configuration()

    def set_image(self, image):
        """Pods of another image have an archive of their own, and load the newest of the others while there is none."""
        self.image = image
        self.write_configuration()

    def write_configuration(self):
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump({"cache": "engine", "store": {"volume": {}}, "store_mount": self.store,
                       "control_path": self.home + "/control", "directories": self.directories,
                       "key_basis": {"parts": ["Architecture", "Image"], "image": self.image},
                       "cpu_variables": self.cpu_variables}, file)

    def ask(self, *words):
        configured = [] if words[0] == "inspect" else ["--config", self.config]
        done = subprocess.run([self.agent, *words, *configured], capture_output=True, text=True, check=False,
                              timeout=LONGEST_RUN)
        if done.returncode != 0:
            raise Broken(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def begin(self):
        """An empty pod, and what became of its load."""
        shutil.rmtree(self.home, ignore_errors=True)
        os.makedirs(self.home)
        self.ask("load")
        with open(self.home + "/control/status.json", encoding="utf-8") as file:
            return json.load(file)

    def saved(self):
        """What is in the store after this pod's save."""
        self.ask("save", "--once")
        archives = json.loads(self.ask("inspect", "--json", self.store))["archives"]
        mine = [one for one in archives if any(self.image in text for text in one["annotations"].values())]
        return mine[0] if mine else {"generation": 0}

    def effect(self):
        return json.loads(self.ask("effect", "--json"))

    def variables(self):
        """As the webhook sets them: of two frameworks with one variable the first counts."""
        found = {}
        for directory in self.directories:
            for name, value in directory["framework"]["env"].items():
                found.setdefault(name, value.replace("{directory}", directory["path"]))
        return found

    def files(self, folder):
        """Below a folder of the pod, relative to it."""
        found = [os.path.join(at, name) for at, _, names in os.walk(f"{self.home}/{folder}") for name in names]
        return {os.path.relpath(path, f"{self.home}/{folder}") for path in found}

    def outside(self):
        """What the engine wrote that is in none of our directories, and which its folder here does not name."""
        ours = ("cache/", "control/", "work/")
        return sorted(path for path in self.files("") if not path.startswith(ours)
                      and not any(fnmatch.fnmatch(path, pattern) for pattern in self.engine.known_outside))

    def run(self, python, app="app.py", **variables):
        """What the engine's application says of itself in its last line, in JSON."""
        shutil.rmtree(self.home + "/tmp", ignore_errors=True)  # no container keeps it
        for folder in [one["path"] for one in self.directories] + [self.home + "/work", self.home + "/tmp"]:
            os.makedirs(folder, exist_ok=True)
        environment = {**os.environ, **self.variables(), **self.engine.variables, "HOME": self.home, "USER": "engine",
                       "TMPDIR": self.home + "/tmp", "PYTHONPATH": HERE + "/support", "PYTHONDONTWRITEBYTECODE": "1",
                       "CCACHE_DISABLE": "1", **variables}
        environment["PATH"] = os.path.dirname(python) + ":" + environment["PATH"]
        began = time.monotonic()
        done = subprocess.run([python, f"{self.engine.folder}/{app}"], env=environment, capture_output=True, text=True,
                              check=False, timeout=LONGEST_RUN, cwd=self.home + "/work")
        if done.returncode != 0:
            raise Broken(f"{self.engine.name} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-8000:]}")
        said = json.loads(done.stdout.splitlines()[-1])
        said["all_seconds"] = time.monotonic() - began
        return said


def after_image_changes(pod, python):
    """Two pods after each of two image changes: each first pod of an image loads what the last one of the image before it saved.

    Beside what each loaded and made is what a pod after its save would load.
    """
    pods, generation = [], 0
    for image, match in (("engine:2", "compatible"), ("engine:2", "exact"), ("engine:3", "compatible"), ("engine:3", "exact")):
        if image != pod.image:
            generation = 0
        pod.set_image(image)
        status = pod.begin()
        if status["outcome"] != "SUCCESS" or status["match"] != match:
            raise Broken(f"after an image change the archive was not loaded as {match}: {status}")
        loaded, before = pod.files("cache"), generation
        said, told = pod.run(python), pod.effect()
        made, generation = pod.files("cache") - loaded, pod.saved()["generation"]
        pod.begin()
        kept = pod.files("cache")
        pods.append({"image": image, "match": match, "said": said, "effect": told["effect"], "seconds_told": told["compileSeconds"],
                     "loaded": len(loaded), "new": sorted(made), "lost": sorted(loaded - kept),
                     "saved": generation != before, "generation": generation})
    return pods


def after_a_kill(pod, python):
    """What is wrong in the pods after one whose process was killed while it wrote an entry. Each begins with an empty store."""
    shutil.rmtree(pod.store)
    pod.begin()
    pod.run(python)
    name = next(path for path in sorted(pod.files("cache")) if fnmatch.fnmatch(path, pod.engine.cut_off))
    path = f"{pod.home}/cache/{name}"
    os.truncate(path, os.path.getsize(path) // 2)
    pod.saved()
    misses = []
    for _ in range(2):
        status = pod.begin()
        if status["outcome"] != "SUCCESS":
            raise Broken(f"after a kill the archive was not loaded: {status}")
        misses.append(pod.run(python)["misses"])
        pod.saved()
    if misses != [1, 0]:
        return [f"of an entry that was cut off the next pods miss {misses[0]} and {misses[1]}, not 1 and 0"]
    return []


def judge_image_changes(local, pods):
    """What pods after an image change lack that a pod which kept its cache has."""
    wrong, made = [], set()
    for number, one in enumerate(pods, 1):
        what = f"pod {number} over two image changes ({one['image']}, {one['match']})"
        if one["match"] == "compatible" and not one["saved"]:
            wrong.append(f"{what} saves nothing for those after it")
        if one["said"]["hits"] < local["hits"] or one["said"]["misses"] > local["misses"]:
            wrong.append(f"{what} has {one['said']['hits']} hits and {one['said']['misses']} misses, "
                         f"one that kept its cache {local['hits']} and {local['misses']}")
        if one["lost"]:
            wrong.append(f"{what} found files that its save left out: {one['lost'][:10]}")
        if one["match"] == "exact" and one["saved"]:
            wrong.append(f"{what} still makes something that is saved: {sorted(set(one['new']) - made)[:10]}")
        made |= set(one["new"])
    return wrong


def judge(cold, local, rounds, outside):
    """What is not as it must be, in sentences."""
    wrong = []
    if outside:
        wrong.append(f"it keeps files where nothing is saved: {', '.join(outside[:10])}")
    if cold["misses"] == 0:
        wrong.append("a cold start misses nothing: this asks nothing")
    if local["hits"] == 0:
        wrong.append("the engine does not use a cache of its own that was kept")
    first = rounds[0]["said"]
    if first["hits"] < local["hits"] or first["misses"] > local["misses"]:
        wrong.append(f"with what we loaded {first['hits']} hits and {first['misses']} misses, with what was kept "
                     f"{local['hits']} and {local['misses']}")
    for one in rounds:
        really = ("partial" if one["said"]["misses"] else "full") if one["said"]["hits"] else "none"
        # Engines do not count compiles and finds beside entries.
        beside = one["effect"] == "partial" and (one["said"]["compile_seconds"] > NOTICED) == (really == "full")
        if one["effect"] != really and not beside:
            wrong.append(f"we tell the effect {one['effect']}; by what the engine counts it is {really}")
    if rounds[-1]["saved"]:
        wrong.append(f"the {len(rounds)}th warm start still leaves something to save, so that each pod saves")
    return wrong


def judge_by_compilers(pods, cold):
    """Where the application measures its compilers: whether the effect and the seconds that we tell follow them."""
    wrong = []
    most = cold.get("compiler_seconds", 0)
    for one in pods:
        spent = one["said"].get("compiler_seconds", 0)
        if one["effect"] == "full" and spent >= min(ALWAYS_NOTICED, max(NOTICED, NOTICED_SHARE * most)):
            wrong.append(f"we tell the effect full, and compilers took {spent:.1f} s of CPU time, {most:.1f} s at a cold start")
        if one["effect"] == "none" and spent < most / 2:
            wrong.append(f"we tell the effect none, and compilers took {spent:.1f} s of CPU time, {most:.1f} s at a cold start")
        if spent > NOTICED and one["seconds_told"] < spent / (2 * os.cpu_count()):
            wrong.append(f"we tell {one['seconds_told']:.1f} s of compiling, and compilers took {spent:.1f} s of CPU time")
    return wrong


def pods_paths(files):
    """Files as patterns, so that a row tells where an engine writes: what looks like a digest or a number is left out."""
    return {re.sub(r"[0-9A-Z]{52}|[0-9a-f]{8,}|\d+", "*", path) for path in files}


def warm_rounds(pod, python, archive):
    """Pods that load what the ones before them have saved, until one leaves nothing new."""
    rounds = []
    while len(rounds) < MOST_ROUNDS and (not rounds or rounds[-1]["saved"]):
        status = pod.begin()
        if status["outcome"] != "SUCCESS":
            raise Broken(f"the archive was not loaded: {status}")
        loaded = pod.files("cache")
        said, told, after = pod.run(python), pod.effect(), pod.saved()
        rounds.append({"said": said, "effect": told["effect"], "seconds_told": told["compileSeconds"], "new_entries": told["newNames"],
                       "load_ms": status["milliseconds"], "loaded": loaded, "saved": after["generation"] != archive["generation"]})
        archive = after
    return rounds


def other_cpu(engine, agent, python):
    """What is wrong with pods of one key on hosts of two kinds of CPU: this one, and this one as engine.otherCpu makes the engine see
    it. Each kind comes first once. That the engine computes something else with a directory of the other kind is asked, too: else this
    would show nothing."""
    told, wrong = engine.other_cpu, []
    name, value = told["variable"].split("=", 1)
    kinds = [{}, {name: value}]
    for first, second in (kinds, kinds[::-1]):
        with tempfile.TemporaryDirectory(prefix="compilecache-engine-") as work:
            pod = Pod(engine, agent, work)

            def start(variables, expected):
                pod.configure([f"{one}={text}" for one, text in variables.items()])
                status = pod.begin()
                said = pod.run(python, told["app"], **variables)
                what = f"{variables or 'no variable'} after {first or 'no variable'}"
                if (status["outcome"], status["reason"]) != expected:
                    wrong.append(f"another CPU: {what}: the load ended with {status['outcome']} {status['reason']}")
                if said["sums"] != said["right"]:
                    wrong.append(f"another CPU: {what}: it computes {said['sums']}, and right is {said['right']}")
                if (status["outcome"] == "SUCCESS") != (said["misses"] == 0):
                    wrong.append(f"another CPU: {what}: {said['hits']} hits and {said['misses']} misses")

            start(first, ("DOES_NOT_EXIST", "no_archive"))
            pod.saved()
            kept = pod.run(python, told["app"], **second)
            if kept["sums"] == kept["right"]:
                wrong.append("another CPU: a kept directory of the other kind computes what is right: this host shows nothing")
            start(second, ("DOES_NOT_EXIST", "cpu_mismatch"))
            pod.saved()
            start(second, ("SUCCESS", ""))
            start(first, ("SUCCESS", ""))
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
        outside, made = pod.outside(), pod.files("cache")
        told = pod.effect()
        archive = pod.saved()
        local = pod.run(python)
        rounds = warm_rounds(pod, python, archive)
        pod.begin()
        more = pod.run(python, MORE="1") if engine.can_do_more else None
        partly = pod.effect()["effect"]
        images = after_image_changes(pod, python)
        killed = after_a_kill(pod, python) if engine.cut_off else []
    left = sorted(made - rounds[0]["loaded"])
    for one in rounds:
        del one["loaded"]
    row = {"engine": engine.name, "release": engine.release, "said_release": cold["release"], "cold": cold, "local": local,
           "rounds": rounds, "compile_seconds_told": told.get("compileSeconds"), "files": archive["files"],
           "stored": archive["compressedBytes"], "not_packed": left, "paths": sorted(pods_paths(made)), "images": images,
           "measured": datetime.date.today().isoformat() + ", " + machine()}
    first = {"said": cold, "effect": "cold", "seconds_told": told["compileSeconds"]}
    wrong = judge(cold, local, rounds, outside) + judge_by_compilers([first, *rounds, *images], cold) + judge_image_changes(local, images) + killed
    if more and (more["misses"] == 0 or partly != "partial"):
        wrong.append(f"where {more['misses']} more are compiled than are loaded the effect is told as {partly}")
    if engine.other_cpu:
        wrong += other_cpu(engine, agent, python)
    return row, wrong


def machine():
    """Cores and CPU: "2 cores of AMD EPYC"."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = re.search(r"^model name\s*: (.*)", file.read(), re.MULTILINE)
    return f"{len(os.sched_getaffinity(0))} cores" + (f" of {' '.join(model[1].split())}" if model else "")


HEAD = ("| engine | release | compiles: cold | kept | through us | next pods | hits, misses: kept | through us | next pods | effect |"
        " files | stored | load | measured |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")


def line(row):
    """A row as people read it. Seconds are those that the engine itself counts as compiling."""
    first, rest = row["rounds"][0], row["rounds"][1:]

    def counted(said):
        return f"{said['hits']}, {said['misses']}"

    def each(tell):
        return "; ".join(tell(one) for one in rest) or "as the first"

    return (f"| {row['engine']} | {row['release']} | " +
            " | ".join(f"{said['compile_seconds']:.1f} s" for said in (row["cold"], row["local"], first["said"])) +
            f" | {each(lambda one: '%.1f s' % one['said']['compile_seconds'])} | {counted(row['local'])} | {counted(first['said'])}"
            f" | {each(lambda one: counted(one['said']))} | {'; '.join(one['effect'] for one in row['rounds'])}"
            f" | {row['files']} | {row['stored'] / 1024:.0f} KiB | {first['load_ms']} ms | {row['measured']} |\n")


def table(rows):
    return HEAD + "".join(line(row) for row in rows)


def write_into(page, rows):
    """The page's table with these rows in place of those of the same releases; newest first."""
    with open(page, encoding="utf-8") as file:
        before, rest = file.read().split(HEAD)
    lines = rest.splitlines(keepends=True)
    count = next((at for at, text in enumerate(lines) if not text.startswith("|")), len(lines))
    kept = {tuple(text.split(" | ")[:2]): text for text in lines[:count]}
    kept |= {tuple(line(row).split(" | ")[:2]): line(row) for row in rows}

    def order(key):
        return key[0], [-int(number) for number in re.findall(r"\d+", key[1])]

    with open(page, "w", encoding="utf-8") as file:
        file.write(before + HEAD + "".join(kept[key] for key in sorted(kept, key=order)) + "".join(lines[count:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="NAME, NAME/VARIANT, either with ==RELEASE")
    parser.add_argument("--agent", default=PROJECT + "/build/agent/compilecache-agent")
    parser.add_argument("--table", help="write the table to this file too")
    parser.add_argument("--page", help="put the rows into the table of this file: docs/reference/engines.md")
    options = parser.parse_args()
    names = options.names or sorted(one for one in os.listdir(HERE) if os.path.exists(f"{HERE}/{one}/engine.json"))
    rows, wrong, not_run = [], [], []
    for name in names:
        engine = Engine(*name.split("==", 1))
        try:
            row, faults = measure(engine, os.path.abspath(options.agent))
        except Broken as broken:
            row, faults = None, [str(broken)]
        wrong += [f"{engine.name} {engine.release}: {fault}" for fault in faults]
        if row is not None:
            rows.append(row)
            print(json.dumps(row), flush=True)
        elif not faults:
            not_run.append(f"{engine.name} {engine.release}: PyPI does not give its packages")
        if engine.needs_gpu:
            not_run.append(f"{engine.name} {engine.release} on a GPU: {engine.needs_gpu}")
    print("\n" + table(rows), end="")
    if options.table:
        with open(options.table, "w", encoding="utf-8") as file:
            file.write(table(rows))
    if options.page:
        write_into(options.page, rows)
    for one in not_run:
        print(f"NOT RUN: {one}")
    for one in wrong:
        print(f"FAILED: {one}")
    for row in rows:
        print(f"RUN: {row['engine']} {row['release']}")
    broken = {fault.split(":")[0] for fault in wrong}
    print(f"{len(broken)} of {len(broken | {row['engine'] + ' ' + row['release'] for row in rows})} engines are not as they must be")
    if wrong:
        return 1
    return NOT_RUN if not rows else 0


if __name__ == "__main__":
    sys.exit(main())
