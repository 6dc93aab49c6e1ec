# A small model that keeps what was compiled for it in one file of its own, by PyTorch's portable caches (2.7 or
# newer). Without COMPILECACHE_PORTABLE_DIR, that is without the operator, it compiles as ever.
import json, os, pathlib, signal, threading
import torch
import torch._dynamo
from torch._dynamo.utils import counters

folder = os.environ.get("COMPILECACHE_PORTABLE_DIR")
blob = folder and pathlib.Path(folder, "model")
if blob and blob.exists():
    torch.compiler.load_cache_artifacts(blob.read_bytes())

model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64), torch.nn.GELU())
with torch.no_grad():
    torch.compile(model.eval())(torch.ones(8, 64))

inductor = counters["inductor"]
if blob and inductor["fxgraph_cache_miss"]:
    artifacts, _ = torch.compiler.save_cache_artifacts()
    unfinished = blob.with_suffix(".tmp")   # is not saved
    unfinished.write_bytes(artifacts)
    unfinished.rename(blob)

print(json.dumps({"phase": "ready", "hits": inductor["fxgraph_cache_hit"], "misses": inductor["fxgraph_cache_miss"]}),
      flush=True)
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
stop.wait()
