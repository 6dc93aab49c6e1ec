"""Starts vLLM's engine on a small Qwen3 with made-up weights, compiled as for GPUs, and tells what its caches did."""

import json
import os
import shutil
import time

from way_of_gpus import keep_the_mode_of_gpus


def main():
    model = os.path.abspath("model")
    os.makedirs(model, exist_ok=True)
    shutil.copy(os.path.dirname(os.path.abspath(__file__)) + "/model.json", model + "/config.json")
    import vllm
    from torch._dynamo.utils import counters
    from vllm import LLM
    from vllm.compilation.counter import compilation_counter

    keep_the_mode_of_gpus()
    began = time.monotonic()
    engine = LLM(model=model, load_format="dummy", skip_tokenizer_init=True, max_model_len=256,
                 compilation_config={"mode": 3, "cudagraph_mode": "NONE", "compile_sizes": []})
    seconds = time.monotonic() - began
    counted, graphs = compilation_counter, counters["inductor"]
    print(json.dumps({
        "release": vllm.__version__,
        "seconds": seconds,
        "compile_seconds": engine.llm_engine.vllm_config.compilation_config.compilation_time,
        "hits": counted.num_aot_artifacts_loaded + counted.num_compiled_artifacts_loaded,
        "misses": counted.num_aot_compiles + counted.num_compiled_artifacts_saved + graphs["fxgraph_cache_miss"],
    }))


if __name__ == "__main__":
    main()
