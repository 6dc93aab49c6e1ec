"""Builds two C++ modules by tvm-ffi, as engines do that make kernels by it. ninja decides whether a compiler is started."""

import json
import os
import time

import compilers
import tvm_ffi
from tvm_ffi import cpp

SOURCE = "int {name}(int x) {{ return x + {number}; }}"
NAMES = ["first", "second", "third"] if os.environ.get("MORE") else ["first", "second"]


def main():
    starts = compilers.counted("c++")
    hits, misses, began = 0, 0, time.monotonic()
    for number, name in enumerate(NAMES):
        before = starts()
        library = cpp.build_inline(name=name, cpp_sources=SOURCE.format(name=name, number=number), functions=[name])
        hits, misses = hits + (starts() == before), misses + (starts() > before)
        assert tvm_ffi.load_module(library)[name](1) == 1 + number
    seconds = time.monotonic() - began
    print(json.dumps({"release": tvm_ffi.__version__, "seconds": seconds, "compile_seconds": seconds, "hits": hits,
                      "misses": misses}))


if __name__ == "__main__":
    main()
