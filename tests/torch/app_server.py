"""Compiles a small model in forked processes, so that torch is imported once for many runs.

Runs beside killed.py, in the PyTorch image's files. Reads lines of JSON from standard input:
{"cache": DIRECTORY, "result": FILE}, and answers {"pid": N}; {"kill": N, "compilers": true} sends it SIGKILL, and where
asked its compilers too. The process writes the result (JSON) when it has compiled and computed, and ends with 0; its
output goes to FILE.log. Whatever ends it, {"ended": N, "status": S} follows.
"""

import contextlib
import json
import os
import select
import signal
import sys
import traceback

# Nothing may start threads before the forks.
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
import torch
import torch._dynamo
import torch._inductor.config


class Block(torch.nn.Module):
    """Attention and normalisation: few kernels, so that a cold run takes seconds."""

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.Linear(32, 32)
        self.norm = torch.nn.LayerNorm(32)

    def forward(self, x):
        attention = torch.softmax(self.weights(x) @ x.transpose(1, 2), -1)
        return self.norm(attention @ x) + x


def compile_and_run():
    from torch._dynamo.utils import counters

    torch._inductor.config.compile_threads = 2
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Block().eval()
    compiled = torch.compile(model, dynamic=False)
    example = torch.linspace(0, 1, 2 * 8 * 32).reshape(2, 8, 32)
    with torch.no_grad():
        if not torch.allclose(compiled(example), model(example), atol=1e-4):
            raise SystemExit("compiled code computes something else")
    inductor = counters["inductor"]
    return {"hits": inductor["fxgraph_cache_hit"], "misses": inductor["fxgraph_cache_miss"]}


def child(request):
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = request["cache"]
    log = os.open(request["result"] + ".log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    result = compile_and_run()
    with open(request["result"], "w") as out:
        json.dump(result, out)
    sys.stdout.flush()
    os._exit(0)


def main():
    print(json.dumps({"torch": torch.__version__}), flush=True)
    running = 0
    while True:
        ready = select.select([sys.stdin.buffer.raw], [], [], 0.02 if running else None)[0]
        if ready:
            line = sys.stdin.buffer.raw.readline()
            if not line:
                return
            request = json.loads(line)
            if "kill" in request:
                with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                    (os.killpg if request["compilers"] else os.kill)(request["kill"], signal.SIGKILL)
                continue
            pid = os.fork()
            if pid == 0:
                try:
                    child(request)
                except BaseException:  # the parent's loop is not the child's
                    traceback.print_exc()
                os._exit(1)
            running += 1
            os.setpgid(pid, pid)
            print(json.dumps({"pid": pid}), flush=True)
        while running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            running -= 1
            print(json.dumps({"ended": pid, "status": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    main()
