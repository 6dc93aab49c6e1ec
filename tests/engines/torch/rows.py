"""Sums of rows by torch.compile: the kernel's C++ is written for vectors of one width, so that on a CPU with another one it adds up
something else, without an error.
"""

import json
import time


def main():
    import torch
    from torch._dynamo.utils import counters

    began = time.monotonic()

    @torch.compile
    def rows(x):
        return (x * 0.5 + 1).sum(dim=1)

    x = torch.arange(8 * 64, dtype=torch.float32).reshape(8, 64) / 512
    sums = [round(one, 3) for one in rows(x).tolist()]
    right = [round(one, 3) for one in (x * 0.5 + 1).sum(dim=1).tolist()]
    seconds = time.monotonic() - began
    print(json.dumps({"release": torch.__version__, "seconds": seconds, "compile_seconds": seconds,
                      "hits": counters["inductor"]["fxgraph_cache_hit"], "misses": counters["inductor"]["fxgraph_cache_miss"],
                      "sums": sums, "right": right}))


if __name__ == "__main__":
    main()
