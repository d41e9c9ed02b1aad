"""The real llama.cpp server as a command of its own: ``python tests/elastic/llama.py PORT MODEL AFTER_S``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parents[1]


def main(port: str, model: str, after_s: str) -> None:
    time.sleep(float(after_s))
    options = {"slots": 4, "context": 1024, "model": model, "port": int(port), "embeddings": False}
    options["file"] = str(TESTS / "fixtures" / "tiny-qwen3-f32.gguf")
    # It runs until its input ends, and that ends with this process.
    command = [sys.executable, str(TESTS / "rig" / "llama.py"), json.dumps(options)]
    environment = os.environ | {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"}
    raise SystemExit(subprocess.Popen(command, stdin=subprocess.PIPE, env=environment).wait())


if __name__ == "__main__":
    main(*sys.argv[1:])
