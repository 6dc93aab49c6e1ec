"""Compiles two kernels by TileLang for its CPU target, and asks its tuner for one of them; what it compiles for GPUs is kept by
the same classes.
"""

import json
import os
import time

import tilelang
import tilelang.cpu.language as T
from tilelang.cache.kernel_cache import KernelCache

counted = {True: 0, False: 0}


def count_loads():
    load = KernelCache._load_kernel_from_disk

    def counted_load(self, *words, **named):
        kernel = load(self, *words, **named)
        counted[kernel is not None] += 1
        return kernel

    KernelCache._load_kernel_from_disk = counted_load


def add(n, number):
    @T.prim_func
    def main(a: T.Tensor((n,), "float32"), b: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            for i in T.serial(n):
                b[i] = a[i] + T.float32(number)

    return main


def main():
    count_loads()
    began = time.monotonic()
    for number in (1, 2, 3) if os.environ.get("MORE") else (1, 2):
        tilelang.compile(add(64, number), out_idx=[1], target="c", execution_backend="cython")
    seconds = time.monotonic() - began
    print(json.dumps({"release": tilelang.__version__, "seconds": seconds, "compile_seconds": seconds, "hits": counted[True],
                      "misses": counted[False]}))


if __name__ == "__main__":
    main()
