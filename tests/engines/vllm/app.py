"""Starts vLLM's engine on a small model with made-up weights, compiled as for GPUs, and tells what its caches did.

The variable MODEL names the model's configuration beside this file. With LORA the engine takes LoRA adapters, and the graphs are others.
TIME_COMPILERS measures the CPU time of compilers.
"""

import json
import os
import shutil
import time

import compilers
from way_of_gpus import keep_the_mode_of_gpus


def settle_what_the_cpu_can():
    """Asks PyTorch once, in one thread, which vector instructions there are.

    At a warm start several threads ask at the same time, and PyTorch 2.13 then adds -mavx512bf16 to its flags twice or three times
    (VecAVX512.__bool__). The flags are part of the names of kernels, so chance decides whether a start compiles some of them again,
    with a kept folder as well.
    """
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    pick_vec_isa()


def main():
    seconds_of_compilers = compilers.timed("g++") if os.environ.get("TIME_COMPILERS") else lambda: 0
    model = os.path.abspath("model")
    os.makedirs(model, exist_ok=True)
    configuration = os.path.dirname(os.path.abspath(__file__)) + "/" + os.environ.get("MODEL", "model.json")
    shutil.copy(configuration, model + "/config.json")
    import vllm
    from torch._dynamo.utils import counters
    from vllm import LLM
    from vllm.compilation.counter import compilation_counter

    keep_the_mode_of_gpus()
    settle_what_the_cpu_can()
    adapters = {"enable_lora": True, "max_loras": 2, "max_lora_rank": 8} if os.environ.get("LORA") else {}
    began = time.monotonic()
    engine = LLM(model=model, load_format="dummy", skip_tokenizer_init=True, max_model_len=256,
                 compilation_config={"mode": 3, "cudagraph_mode": "NONE", "compile_sizes": []}, **adapters)
    seconds = time.monotonic() - began
    counted, graphs = compilation_counter, counters["inductor"]
    print(json.dumps({
        "release": vllm.__version__,
        "seconds": seconds,
        "compiler_seconds": seconds_of_compilers(),
        "compile_seconds": engine.llm_engine.vllm_config.compilation_config.compilation_time,
        "hits": counted.num_aot_artifacts_loaded + counted.num_compiled_artifacts_loaded,
        "misses": counted.num_aot_compiles + counted.num_compiled_artifacts_saved + graphs["fxgraph_cache_miss"],
    }))


if __name__ == "__main__":
    main()
