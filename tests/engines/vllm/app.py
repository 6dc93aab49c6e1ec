"""Starts vLLM's engine on a small Qwen3 with made-up weights, and tells what its caches did.

vLLM's CPU platform compiles by torch.compile alone, of which nothing can be loaded again. Here its GPUs' way is kept:
one ahead-of-time artifact for the model, Inductor's kernels below it.
"""

import json
import os
import time

MODEL = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "torch_dtype": "bfloat16",
    "vocab_size": 512,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 512,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}


def keep_the_mode_of_gpus():
    from vllm.compilation.passes.utility.fix_functionalization import FixFunctionalizationPass
    from vllm.platforms.cpu import CpuPlatform

    checked = CpuPlatform.check_and_update_config.__func__

    def check_and_update_config(cls, config):
        mode, backend = config.compilation_config.mode, config.compilation_config.backend
        checked(cls, config)
        config.compilation_config.mode, config.compilation_config.backend = mode, backend

    CpuPlatform.check_and_update_config = classmethod(check_and_update_config)
    # It names operations that only builds for GPUs have.
    FixFunctionalizationPass.__call__ = lambda self, graph: None


def main():
    model = os.path.abspath("model")
    os.makedirs(model, exist_ok=True)
    with open(model + "/config.json", "w", encoding="utf-8") as file:
        json.dump(MODEL, file)
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
