"""SGLang's own cache code without its server, which does not import without a GPU: what it sets for others' caches (environ), the
builder of its kernels with two modules of C++ (kernels.jit), and a graph that Inductor compiles where SGLang's compiler puts it.
"""

import importlib.util
import json
import os
import sys
import time
import types
from importlib.metadata import version
from pathlib import Path

import compilers

SOURCE = """#include <tvm/ffi/function.h>
static int {name}(int x) {{ return x + {number}; }}
TVM_FFI_DLL_EXPORT_TYPED_FUNC({name}, {name});
"""
NAMES = ["first", "second", "third"] if os.environ.get("MORE") else ["first", "second"]


def packages_without_their_imports():
    """SGLang's packages import the whole server; only the modules of its caches are wanted."""
    root = Path(importlib.util.find_spec("sglang").submodule_search_locations[0])
    for name in ("sglang", "sglang.srt", "sglang.srt.utils", "sglang.srt.compilation", "sglang.kernels"):
        package = types.ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    common = types.ModuleType("sglang.srt.utils.common")
    common.is_cuda = lambda: False
    common.get_cuda_version = lambda: (12, 9)
    common.torch_release = (2, 14)
    sys.modules[common.__name__] = common


def modules(starts):
    """How many of SGLang's kernels were there, and how many it built."""
    from sglang.kernels.jit.utils.arch import override_jit_cuda_arch
    from sglang.kernels.jit.utils.compile import load_jit

    hits = misses = 0
    with override_jit_cuda_arch(9, 0, "a"):
        for number, name in enumerate(NAMES):
            source = Path(f"{name}.cc").absolute()
            source.write_text(SOURCE.format(name=name, number=number))
            before = starts()
            module = load_jit(name, cpp_files=[str(source)], header_only=False)
            assert module[name](1) == 1 + number
            hits, misses = hits + (starts() == before), misses + (starts() > before)
    return hits, misses


def graph():
    """Inductor's hits and misses in the folder that SGLang's compiler chooses."""
    from sglang.srt.compilation.compiler_interface import InductorAdaptor
    from sglang.srt.environ import envs

    import torch
    from torch._dynamo.utils import counters

    folder = os.path.join(envs.SGLANG_CACHE_DIR.get(), "torch_compile_cache", "0123456789", "rank_0_0", "backbone")
    os.makedirs(folder, exist_ok=True)
    InductorAdaptor().initialize_cache(folder)
    torch.compile(lambda x, weight: torch.nn.functional.gelu(x @ weight).sum())(torch.ones(8, 64), torch.ones(64, 64))
    return counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"]


def main():
    starts = compilers.counted("c++")
    packages_without_their_imports()
    from sglang.srt.environ import redirect_third_party_caches

    redirect_third_party_caches()
    began = time.monotonic()
    counted = [modules(starts), graph()]
    seconds = time.monotonic() - began
    print(json.dumps({"release": version("sglang"), "seconds": seconds, "compile_seconds": seconds,
                      "hits": sum(one[0] for one in counted), "misses": sum(one[1] for one in counted)}))


if __name__ == "__main__":
    main()
