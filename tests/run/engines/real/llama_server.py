"""llama.cpp's own HTTP server, in a process of its own: `python llama_server.py MODEL CONTEXT [NAME]`.

It takes a free port and prints its address; it ends when its standard input does, so it never outlives the tests.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any


def main() -> None:
    file, context, *names = sys.argv[1:]
    xllamacpp: Any = importlib.import_module("xllamacpp")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = file
    parameters.model_alias = set(names)
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = int(context)
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.endpoint_slots = True
    parameters.endpoint_metrics = True
    parameters.offline = True
    parameters.warmup = False
    # Full precision, so that its scores can be compared with those of transformers.
    parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server = xllamacpp.Server(parameters)
    try:
        print(server.listening_address, flush=True)
        sys.stdin.read()
    finally:
        # At once, and without waiting for requests that are still being answered.
        os._exit(0)


if __name__ == "__main__":
    main()
