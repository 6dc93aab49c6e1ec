"""Compiles Triton kernels for GPUs that are not here, by Triton's own compiler and the ptxas of its wheel, and asks its
autotuner which of two configurations is the fastest. Nothing is launched: what would be measured is made up.
"""

import json
import os
import time

import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver

H100 = GPUTarget("cuda", 90, 32)
MI300 = GPUTarget("hip", "gfx942", 64)
counted = {True: 0, False: 0}


class NoDriver:
    """The autotuner asks a GPU's driver what it drives."""

    def get_current_target(self):
        return H100


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 3.0, mask=at < n)


def compiled(**told):
    counted[told["cache_hit"]] += 1


def tune():
    """As @triton.autotune does before a first launch."""
    configs = [triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})]
    tuner = Autotuner(add, add.arg_names, configs, ["n"], None, None)
    asked = []

    def measure():
        asked.append("n")
        tuner.configs_timings = {config: [float(number)] * 3 for number, config in enumerate(configs)}

    counted[tuner.check_disk_cache(("n", 1024), configs, measure)] += 1


def main():
    knobs.compilation.listener = compiled
    driver.set_active(NoDriver())
    began = time.monotonic()
    for target in (H100, MI300):
        for block in (128, 256, 512) if os.environ.get("MORE") else (128, 256):
            pointers = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
            triton.compile(ASTSource(add, pointers, {"BLOCK": block}), target=target)
        pointers = {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
        triton.compile(ASTSource(scale, pointers, {"BLOCK": 64}), target=target)
    tune()
    seconds = time.monotonic() - began
    print(json.dumps({"release": triton.__version__, "seconds": seconds, "compile_seconds": seconds, "hits": counted[True],
                      "misses": counted[False]}))


if __name__ == "__main__":
    main()
