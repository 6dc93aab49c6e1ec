"""What the end-to-end tests run in pods: a small transformer under torch.compile.

Prints one line of JSON when it has compiled ("phase": "ready"), then waits for SIGTERM. Arguments:
  --shapes 8,16      sequence lengths to compile, one after another
  --layers 1         of the transformer; 0: one small function instead, which compiles in a fraction of the time
  --setting a=b      an Inductor setting to change (torch._inductor.config), the value as JSON
  --dynamic          compile with symbolic shapes
  --train            forward and backward, instead of forward alone
  --processes 1      how many compile, at once; the result is the first one's
  --import-only      import torch and compile nothing
  --wait-for FILE    compile only once this file exists (lets a test start several at once)
"""

import argparse
import glob
import json
import os
import signal
import threading
import time


def compile_and_run(arguments):
    import torch
    import torch._inductor.config
    from torch._dynamo.utils import counters

    for setting in arguments.setting:
        name, value = setting.split("=", 1)
        setattr(torch._inductor.config, name, json.loads(value))
    # The fused inference path would leave Inductor nothing to compile.
    torch.backends.mha.set_fastpath_enabled(False)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if arguments.layers == 0:
        model = lambda x: torch.nn.functional.gelu(x) + x
    else:
        layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        model = torch.nn.TransformerEncoder(layer, arguments.layers, enable_nested_tensor=False).eval()
    compiled = torch.compile(model, dynamic=arguments.dynamic)
    start = time.monotonic()
    with torch.set_grad_enabled(arguments.train):
        for length in arguments.shapes:
            given = torch.ones(2, length, 64, requires_grad=arguments.train)
            output = compiled(given)
            if arguments.train:
                output.sum().backward()
    seconds = time.monotonic() - start
    with torch.no_grad():
        right = torch.allclose(output, model(given), atol=1e-3)
    inductor = counters["inductor"]
    root = os.environ.get("TORCHINDUCTOR_CACHE_DIR", "")
    return {
        "seconds": round(seconds, 3),
        "hits": inductor["fxgraph_cache_hit"],
        "misses": inductor["fxgraph_cache_miss"],
        "aot_hits": counters["aot_autograd"]["autograd_cache_hit"],
        "right": right,
        "torch": torch.__version__,
        "keys": sorted(os.path.relpath(path, root) for path in glob.glob(root + "/fxgraph/*/*")),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shapes", default=[8], type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--layers", default=1, type=int)
    parser.add_argument("--setting", action="append", default=[])
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--processes", default=1, type=int)
    parser.add_argument("--import-only", action="store_true")
    parser.add_argument("--wait-for", default="")
    arguments = parser.parse_args()

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    while arguments.wait_for and not os.path.exists(arguments.wait_for) and not stop.is_set():
        time.sleep(0.1)
    if arguments.import_only:
        import torch

        result = {"torch": torch.__version__}
    else:
        first = all(os.fork() for _ in range(arguments.processes - 1))
        result = compile_and_run(arguments)
        if not first:
            os._exit(0)
        for _ in range(arguments.processes - 1):
            os.wait()
    result["phase"] = "ready"
    print(json.dumps(result), flush=True)
    stop.wait()


if __name__ == "__main__":
    main()
