#!/usr/bin/env python3
"""Lets real tvm_ffi build a C++ module by ninja, saves and loads its cache, and counts what is compiled again.

  tests/torch/tvm_ffi.py [--agent PROGRAM]

ninja compares the times of files, to the nanosecond, with those that it noted: where a loaded cache has others, all is
built anew, however equal the contents are. `load_inline` runs cold, in place, and in a directory that the loader
filled, each in a process of its own; the compiler is a script that notes each start and calls c++. The agent is the
real one, with the framework tvm-ffi of config/settings.yaml, on a store in a folder.

The package comes from PyPI once, to ~/.cache/compilecache/python; without it and without PyPI: NOT RUN, exit status 77.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
PACKAGES = ["apache-tvm-ffi==0.1.15.post2", "typing-extensions==4.16.0"]
NOT_RUN = 77

APP = """
import tvm_ffi.cpp
source = "int add_one(int x) { return x + 1; }"
module = tvm_ffi.cpp.load_inline(name="one", cpp_sources=source, functions=["add_one"])
assert module.add_one(41) == 42
"""
COMPILER = """#!/bin/sh
echo "$@" >> "$COMPILER_STARTS"
exec c++ "$@"
"""


class Failure(Exception):
    pass


def require(condition, what):
    if not condition:
        raise Failure(what)


def packages():
    """A folder with the packages, made once."""
    name = PACKAGES[0].replace("==", "-") + f"-python{sys.version_info.major}.{sys.version_info.minor}"
    folder = os.path.expanduser("~/.cache/compilecache/python/" + name)
    if not os.path.isdir(folder):
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as making:
            made = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target",
                                   making + "/done", *PACKAGES], check=False, timeout=300)
            if made.returncode != 0:
                print("NOT RUN: tvm_ffi is not installed and PyPI does not give it")
                sys.exit(NOT_RUN)
            os.rename(making + "/done", folder)
    return folder


def framework():
    """tvm-ffi as the operator's settings describe it, in the agents' words."""
    with open(PROJECT + "/config/settings.yaml", encoding="utf-8") as file:
        described = yaml.safe_load(file)["frameworks"]["tvm-ffi"]
    words = {"entryFiles": "entry_files", "neverPack": "never_pack", "temporary": "temporary", "elfFiles": "elf_files"}
    return {"name": "tvm-ffi", **{word: described[name] for name, word in words.items()}}


class Pod:
    def __init__(self, agent, work):
        self.agent, self.work, self.cache = agent, work, work + "/cache/tvm-ffi"
        self.starts = work + "/starts"
        self.compiler = work + "/compiler"
        with open(self.compiler, "w", encoding="utf-8") as file:
            file.write(COMPILER)
        os.chmod(self.compiler, 0o755)
        config = {"cache": "tvm", "store": {"volume": {}}, "store_mount": work + "/store", "control_path": work + "/cache/control",
                  "directories": [{"path": self.cache, "framework": framework()}],
                  "key_basis": {"parts": ["Architecture"]}}
        self.config = work + "/config.json"
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(config, file)

    def run_app(self):
        """How often the compiler was started."""
        open(self.starts, "w", encoding="utf-8").close()
        os.makedirs(self.cache, exist_ok=True)
        environment = dict(os.environ, TVM_FFI_CACHE_DIR=self.cache, CXX=self.compiler, COMPILER_STARTS=self.starts,
                           PYTHONPATH=packages())
        subprocess.run([sys.executable, "-c", APP], env=environment, check=True, timeout=300)
        with open(self.starts, encoding="utf-8") as file:
            return len(file.readlines())

    def agent_does(self, *words):
        subprocess.run([self.agent, *words, "--config", self.config], check=True, timeout=120)

    def status(self):
        with open(self.work + "/cache/control/status.json", encoding="utf-8") as file:
            return json.load(file)["outcome"]

    def end(self):
        shutil.rmtree(self.work + "/cache")


def check(pod):
    cold = pod.run_app()
    require(cold > 0, "nothing was compiled in an empty directory")
    require(pod.run_app() == 0, "in the directory where it was built it is built again: this asks nothing")
    pod.agent_does("save", "--once")
    pod.end()
    pod.agent_does("load")
    require(pod.status() == "SUCCESS", f"the cache was not loaded: {pod.status()}")
    warm = pod.run_app()
    print(f"tvm_ffi load_inline: {cold} compiler starts cold, {warm} with the loaded cache")
    require(warm == 0, "what was loaded is built again")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default=PROJECT + "/build/agent/compilecache-agent")
    arguments = parser.parse_args()
    for program in ("ninja", "c++"):
        if shutil.which(program) is None:
            print(f"NOT RUN: {program} is not installed")
            return NOT_RUN
    packages()
    with tempfile.TemporaryDirectory() as work:
        try:
            check(Pod(arguments.agent, work))
        except Failure as failure:
            print(f"FAILED: {failure}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
