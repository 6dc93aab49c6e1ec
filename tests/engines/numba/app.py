"""Functions that Numba compiles and keeps, one of which calls the other."""

import json
import os
import time

import numba
import numpy as np


@numba.njit(cache=True)
def scaled(values, factor):
    return values * factor


@numba.njit(cache=True)
def total(values, factor):
    result = 0.0
    for value in scaled(values, factor):
        result += np.tanh(value)
    return result


def main():
    began = time.monotonic()
    for kind in (np.float64, np.float32) if os.environ.get("MORE") else (np.float64,):
        assert abs(total(np.ones(8, kind), kind(0.5)) - 8 * np.tanh(0.5)) < 1e-4
    hits = sum(sum(one.stats.cache_hits.values()) for one in (scaled, total))
    misses = sum(sum(one.stats.cache_misses.values()) for one in (scaled, total))
    seconds = time.monotonic() - began
    print(json.dumps({"release": numba.__version__, "seconds": seconds, "compile_seconds": seconds, "hits": hits,
                      "misses": misses}))


if __name__ == "__main__":
    main()
