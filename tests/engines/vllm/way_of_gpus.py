"""Makes vLLM compile for CPUs as it does for GPUs.

Its CPU platform compiles by torch.compile alone, of which nothing can be loaded again. Here its GPUs' way is kept: one
ahead-of-time artifact for the model, Inductor's kernels below it. Called before the engine is configured: by app.py, and in
the image of `cluster vllm-image` by vLLM itself, as a plugin (entry point of the group vllm.general_plugins).
"""


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
