"""Stands for a vLLM server: compiles into VLLM_CACHE_ROOT, and only then answers /health on port 8000.

A minute for every run; vllm_test.cpp takes the real one, in half an hour.
"""

import argparse
import http.server
import os

root = os.environ["VLLM_CACHE_ROOT"]
os.environ["TORCHINDUCTOR_CACHE_DIR"] = root + "/torch_compile_cache/0123456789/rank_0_0/inductor_cache"

import torch_app

torch_app.compile_and_run(argparse.Namespace(shapes=[8], layers=0, setting=[], dynamic=False, train=False))


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, *arguments):
        pass


http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
