"""Odd bodies for every POST route: whatever comes in, the gateway itself never fails and never keeps anybody waiting.

``python -m tests.conformance.fuzz --examples 10000 [--route /api/chat]`` tries as many as told of each route.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import secrets
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
from hypothesis import HealthCheck, Phase, given, settings

from buffer.backend import BackendSpec
from buffer.settings import Settings
from buffer.store import open_store
from gateway.app import create_app
from tests.conformance.bench import MODELS
from tests.conformance.bodies import bodies
from tests.conformance.fields import FIELDS
from tests.gateway.rig import served
from tests.rig.connection import Recorded
from tests.rig.redis_server import run_redis
from tests.rig.script import Piece, Status
from tests.rig.scripted import Scripted
from worker.runner import Worker

LONGEST_S = 5.0
KINDS = ("vllm", "llamacpp", "openai", "ollama")
STREAMS = ("application/x-ndjson", "text/event-stream")
FULL = "no space left on device"
"""What the Ollama says of itself, and the gateway passes on."""
_MANAGED = ("/api/pull", "/api/push", "/api/create", "/api/copy", "/api/delete")


class Fuzzed:
    """A gateway, its worker and an engine of each kind, which always answers, in a thread of their own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.errors: list[str] = []
        self.statuses: dict[int, int] = {}
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="fuzzed")

    def __enter__(self) -> Fuzzed:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._stop is not None
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._live())
        self.loop.close()

    async def _live(self) -> None:
        self._stop = asyncio.Event()
        async with (
            _installation() as (self.url, self.routes),
            httpx.AsyncClient(base_url=self.url, timeout=LONGEST_S, trust_env=False) as self.client,
        ):
            self._ready.set()
            await self._stop.wait()

    def post(self, route: str, body: bytes) -> None:
        """Sends it. Raises ``AssertionError`` where the answer is a failure of the gateway, or no answer."""
        self.errors.clear()
        asyncio.run_coroutine_threadsafe(self._post(route, body), self.loop).result(LONGEST_S + 5)
        assert self.errors == []

    async def _post(self, route: str, body: bytes) -> None:
        method = "DELETE" if route == "/api/delete" else "POST"
        path = route.replace("{digest}", "sha256:" + "0" * 64).replace("{batch_id}", "batch_1")
        started_at = time.monotonic()
        try:
            async with asyncio.timeout(LONGEST_S):
                answer = await self.client.request(method, path, content=body)
        except (TimeoutError, httpx.TimeoutException):
            raise AssertionError(f"no answer in {time.monotonic() - started_at:.1f} s") from None
        self.statuses[answer.status_code] = self.statuses.get(answer.status_code, 0) + 1
        theirs = path in _MANAGED and answer.status_code == 502 and FULL in answer.text
        assert answer.status_code < 500 or theirs, f"{answer.status_code} {answer.text[:500]}"
        kind = answer.headers.get("content-type", "").partition(";")[0]
        if answer.status_code >= 400:
            error = answer.json()["error"]
            assert isinstance(error, dict if path.startswith("/v1") else str), answer.text[:500]
        elif kind in STREAMS and path not in _MANAGED:
            failed = [event for event in _events(answer.text) if event.get("error")]
            assert failed == []


def _events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        data = line.removeprefix("data: ")
        if data.startswith("{"):
            yield json.loads(data)


@contextlib.asynccontextmanager
async def _installation() -> AsyncIterator[tuple[str, list[str]]]:
    async with contextlib.AsyncExitStack() as stack:
        redis = stack.enter_context(run_redis())
        specs = []
        for kind in KINDS:
            flavour: Any = "ollama" if kind == "ollama" else "openai"
            engine = await stack.enter_async_context(
                Scripted(flavour, kind=kind, models=[MODELS[kind]], judge=_keeper, slots=32)
            )
            specs.append(BackendSpec(name=kind, kind=kind, url=engine.url))  # type: ignore[arg-type]
        made = Settings(backends=specs, max_attempts=1)
        prefix = f"t-{secrets.token_hex(6)}"
        store, theirs = await open_store(redis.url, prefix=prefix), await open_store(redis.url, prefix=prefix)
        for one in (store, theirs):
            stack.push_async_callback(one.aclose)
        stop = asyncio.Event()
        group = await stack.enter_async_context(asyncio.TaskGroup())
        group.create_task(Worker(made, theirs).run(stop))
        stack.callback(stop.set)
        app = create_app(made, store)
        url = f"http://127.0.0.1:{await stack.enter_async_context(served(app))}"
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client, asyncio.timeout(20):
            while len((await client.get("/v1/models")).json().get("data", ())) < len(KINDS):
                await asyncio.sleep(0.02)
            paths = (await client.get("/openapi.json")).json()["paths"]
        yield url, [path for path, methods in paths.items() if "post" in methods or path == "/api/delete"]


def _keeper(path: str, request: Recorded) -> Status | list[Piece] | None:
    """An Ollama that has no other models than its own, and cannot get any."""
    if path.startswith("/api/blobs/"):
        return Status(400, {"error": "digest mismatch"})
    if path not in _MANAGED:
        return None
    told = request.body.decode("utf-8", "replace").lower()
    if path in ("/api/copy", "/api/delete") or MODELS["ollama"] not in told:
        return Status(404, {"error": "model not found"})
    return [{"status": "pulling manifest"}, {"error": FULL}]


class Complaints(logging.Handler):
    """Errors that were logged: nothing that a client sends is one."""

    def __init__(self, fuzzed: Fuzzed) -> None:
        super().__init__(logging.ERROR)
        self._fuzzed = fuzzed

    def emit(self, record: logging.LogRecord) -> None:
        self._fuzzed.errors.append(record.getMessage())


@contextlib.contextmanager
def fuzzed() -> Iterator[Fuzzed]:
    with Fuzzed() as it:
        handler = Complaints(it)
        logging.getLogger().addHandler(handler)
        try:
            yield it
        finally:
            logging.getLogger().removeHandler(handler)


def fuzz(it: Fuzzed, route: str, examples: int) -> None:
    """Raises what Hypothesis found, as small as it can be made."""

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(body=bodies(FIELDS[route]))
    def run(body: bytes) -> None:
        it.post(route, body)

    run()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--examples", type=int, default=10_000, help="bodies for each route")
    parser.add_argument("--route", action="append", help="only this one; may be given several times")
    asked = parser.parse_args()
    failures = 0
    with fuzzed() as it:
        for route in asked.route or it.routes:
            it.statuses.clear()
            started_at = time.monotonic()
            try:
                fuzz(it, route, asked.examples)
                said = "nothing found"
            except Exception as error:  # noqa: BLE001 - whatever it is, the other routes are tried too
                failures += 1
                said = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
            tried = ", ".join(f"{count} x {status}" for status, count in sorted(it.statuses.items()))
            print(f"{route}: {tried} in {time.monotonic() - started_at:.0f} s; {said}", flush=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
