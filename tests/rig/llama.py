"""The real llama.cpp server, with a Qwen3 small enough for every run: it thinks, answers, stops, and makes no sense.

It runs in a process of its own, so that it can be killed, and ends with the process that started it. Where the wheel
``xllamacpp`` is missing this fails; it never skips.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MODEL = "tiny-qwen3"
MODEL_FILE = Path(__file__).parents[1] / "fixtures" / "tiny-qwen3-f32.gguf"
START_S = 60.0


@dataclass(frozen=True, slots=True)
class LlamaServer:
    """A running server. ``context`` is the tokens of one slot, prompt and answer together."""

    url: str
    model: str
    slots: int
    context: int
    pid: int
    log: Path

    def get(self, path: str) -> object:
        """The JSON that a GET gives; used by tests that look at ``/slots`` or ``/props``."""
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return json.load(answer)

    def busy_slots(self) -> int:
        slots = self.get("/slots")
        assert isinstance(slots, list)
        return sum(bool(slot["is_processing"]) for slot in slots)

    def kill(self) -> None:
        """As a crash would end it."""
        os.kill(self.pid, signal.SIGKILL)


@contextlib.contextmanager
def run_llama(
    *,
    slots: int = 8,
    context: int = 1024,
    model: str = MODEL,
    port: int = 0,
    embeddings: bool = False,
    file: Path = MODEL_FILE,
) -> Iterator[LlamaServer]:
    """A server with ``slots`` slots of ``context`` tokens each. Raises ``RuntimeError`` if it does not start.

    ``embeddings``: it embeds (too). ``file``: the model's, in GGUF.
    """
    options = {"slots": slots, "context": context, "model": model, "port": port, "embeddings": embeddings}
    options["file"] = str(file)
    with tempfile.TemporaryDirectory(prefix="llama-") as directory:
        log = Path(directory) / "log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [sys.executable, str(Path(__file__)), json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                env=os.environ | {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"},
            )
        try:
            assert process.stdout is not None
            url = process.stdout.readline().decode().strip()
            if not url:
                raise RuntimeError(f"llama.cpp's server did not start:\n{log.read_text(errors='replace')[-2000:]}")
            _wait_until_loaded(url)
            yield LlamaServer(url=url, model=model, slots=slots, context=context, pid=process.pid, log=log)
        finally:
            _end(process)


def _wait_until_loaded(url: str) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Closing its input asks it to go. The C++ threads of a busy server may not listen, so it is not asked twice."""
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)


def _serve(*, slots: int, context: int, model: str, port: int, embeddings: bool, file: str) -> None:
    """The child's part: tells its address on standard output, serves until its standard input ends."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = file
    params.model_alias = {model}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = slots
    params.n_ctx = slots * context
    params.cont_batching = True
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.n_threads_http = 2 * slots + 8
    params.use_jinja = True
    params.endpoint_metrics = True
    params.endpoint_slots = True
    if embeddings:
        params.embedding = True
        # By the last token, as Qwen3's own embedding models do. (By the mean, this server gives wrong vectors itself
        # where texts of different lengths meet in its slots.)
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_LAST
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    _serve(**json.loads(sys.argv[1]))
