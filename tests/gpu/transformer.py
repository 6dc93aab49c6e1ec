"""One process that compiles: a transformer, forward and training, in the modes it is told. Prints one line of JSON.

Compiles in its own process (no workers), so that the counters below see everything.
"""

import argparse
import json
import os
import time

os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

import torch
import torch._dynamo
import torch._inductor.config
from torch._dynamo.utils import counters


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))

    def forward(self, x):
        q, k, v = self.query(self.norms[0](x)).chunk(3, -1)
        weights = torch.softmax(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5, -1)
        x = x + self.out(weights @ v)
        return x + self.down(torch.nn.functional.gelu(self.up(self.norms[1](x))))


def count_triton():
    """How often Triton looked for a kernel's files, found them, and wrote some."""
    counts = {"lookups": 0, "hits": 0, "files written": 0}
    try:
        from triton.runtime.cache import FileCacheManager
    except ImportError:
        return None
    find, put = FileCacheManager.get_group, FileCacheManager.put

    def counted_find(self, name):
        found = find(self, name)
        counts["lookups"] += 1
        counts["hits"] += bool(found)
        return found

    def counted_put(self, *arguments, **named):
        counts["files written"] += 1
        return put(self, *arguments, **named)

    FileCacheManager.get_group, FileCacheManager.put = counted_find, counted_put
    return counts


def run_case(mode, training, length, options):
    """Compiles and runs once; seconds of the first call, compiling included."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Block(options.width) for _ in range(options.layers))).to(options.device)
    x = torch.linspace(-1, 1, 2 * length * options.width, device=options.device).reshape(2, length, options.width)
    compiled = torch.compile(model, mode=None if mode == "default" else mode, dynamic=False)
    start = time.monotonic()
    if training:
        y = compiled(x)
        y.square().mean().backward()
    else:
        with torch.no_grad():
            y = compiled(x)
    if options.device == "cuda":
        torch.cuda.synchronize()
    seconds = time.monotonic() - start
    with torch.no_grad():
        expected = model(x)
    if not torch.allclose(y, expected, atol=1e-2, rtol=1e-2):
        raise SystemExit(f"{mode}: compiled code computes something else")
    return seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--lengths", default=[64], type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--modes", default="default,max-autotune")
    parser.add_argument("--passes", default="forward,training")
    parser.add_argument("--setting", action="append", default=[], help="of torch._inductor.config, name=JSON")
    options = parser.parse_args()
    for setting in options.setting:
        name, value = setting.split("=", 1)
        setattr(torch._inductor.config, name, json.loads(value))
    torch.set_float32_matmul_precision("high")
    triton = count_triton()
    seconds = {}
    for length in options.lengths:
        for mode in options.modes.split(","):
            for kind in options.passes.split(","):
                seconds[f"{mode} {kind} {length}"] = round(run_case(mode, kind == "training", length, options), 2)
    wanted = ("fxgraph_cache", "async_compile_cache", "select_algorithm", "triton")
    print(json.dumps({
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if options.device == "cuda" else "CPU",
        "seconds": seconds,
        "inductor": {k: v for k, v in counters["inductor"].items() if k.startswith(wanted)},
        "aot_autograd": {k: v for k, v in counters["aot_autograd"].items() if k.startswith("autograd_cache")},
        "triton": triton,
    }))


if __name__ == "__main__":
    main()
