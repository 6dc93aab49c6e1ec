"""torch itself on CPU: a network by torch.compile, and an extension that
torch.utils.cpp_extension builds. ninja decides whether the extension's compiler is started.
"""

import json
import os
import time

import compilers

EXTENSION = "int add_{number}(int x) {{ return x + {number}; }}"


def main():
    starts = compilers.counted("c++")
    import torch
    from torch._dynamo.utils import counters
    from torch.utils.cpp_extension import load_inline

    began = time.monotonic()

    @torch.compile
    def network(x, weight):
        return torch.nn.functional.gelu(x @ weight).sum()

    for width in (64, 96) if os.environ.get("MORE") else (64,):
        network(torch.ones(8, width), torch.ones(width, width))
    graphs = counters["inductor"]
    hits, misses = graphs["fxgraph_cache_hit"], graphs["fxgraph_cache_miss"]
    aot = counters["aot_autograd"]
    hits, misses = hits + aot["autograd_cache_hit"], misses + aot["autograd_cache_miss"]
    before = starts()
    extension = load_inline("extension", EXTENSION.format(number=3), functions=["add_3"])
    assert extension.add_3(1) == 4
    hits, misses = hits + (starts() == before), misses + (starts() > before)
    seconds = time.monotonic() - began
    print(json.dumps({"release": torch.__version__, "seconds": seconds, "compile_seconds": seconds, "hits": hits,
                      "misses": misses}))


if __name__ == "__main__":
    main()
