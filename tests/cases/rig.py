"""What every case stands on: a gateway, two workers and a Redis as processes, two scripted engines, a client that keeps
every byte it was answered, and what has to hold after each case."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import redis.asyncio

from tests.acceptance.site import Servers, Site, backend, run_site
from tests.cases.reply import Reply
from tests.rig.scripted import Scripted

OAI, OLL = "m-oai", "m-oll"
"""The models of the engine that speaks OpenAI's API, as vLLM does, and of the one that speaks Ollama's."""
BOTH = (OAI, OLL)

_TRACES = re.compile(rb'Traceback \(most recent call last\)|File "[^"]*\.py"|Internal Server Error')
_TASK_TROUBLE = re.compile(r"never retrieved|[Tt]ask exception|Traceback \(most recent|Exception in ASGI")


def settings(*, retries: int = 0, keys: str = "", origins: str = "", **more: str) -> dict[str, str]:
    """The cases' words for settings as ours. Nothing said: no retry, no resuming, no cache, no window, no keys,
    and a breaker that stays closed, since the cases break engines one after another.

    ``retries``: after the first try. ``keys``: ``name:key`` pairs. ``origins``: of pages that may call.
    ``more``: settings by their own names, without the prefix.
    """
    found = {
        "DOUBLEBUFFER_MAX_ATTEMPTS": str(retries + 1),
        "DOUBLEBUFFER_RESUME": "off",
        "DOUBLEBUFFER_CACHE": "off",
        "DOUBLEBUFFER_WINDOW_MS": "0",
        "DOUBLEBUFFER_BREAKER_FAILURES": "1000",
    }
    if keys:
        found["DOUBLEBUFFER_API_KEYS"] = keys
    if origins:
        found["DOUBLEBUFFER_CORS_ORIGINS"] = origins
    return found | {f"DOUBLEBUFFER_{name.upper()}": value for name, value in more.items()}


@dataclass
class Bench:
    """The installation of a module's cases, and all that its clients were answered since the last check."""

    site: Site
    oai: Scripted
    oll: Scripted
    client: httpx.AsyncClient
    key: str = ""
    """For what no case asks for."""
    heard: list[bytes] = field(default_factory=list)
    _read: dict[int, int] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.site.url

    def engine(self, model: str) -> Scripted:
        return self.oai if model == OAI else self.oll

    async def ask(
        self,
        path: str,
        body: Any = None,
        *,
        method: str = "POST",
        headers: Mapping[str, str | None] | None = None,
        raw: bool = False,
        may_break: bool = False,
    ) -> Reply:
        """One request. ``body``: ``bytes`` as they are, anything else as JSON. A header of None is not sent at all.

        ``raw``: the answer's body as it came, whatever encoding it says it has. ``may_break``: the connection may be
        broken off in the middle of it.
        """
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = self.client.build_request(method, path, content=content)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            if value is None:
                request.headers.pop(name, None)
            else:
                request.headers[name] = value
        began, first_s, data, whole = time.perf_counter(), 0.0, bytearray(), True
        response = await self.client.send(request, stream=True)
        try:
            async for piece in response.aiter_raw() if raw else response.aiter_bytes():
                first_s = first_s or time.perf_counter() - began
                data += piece
        except httpx.RemoteProtocolError:
            if not may_break:
                raise
            whole = False
        finally:
            await response.aclose()
        self.heard.append(bytes(data))
        took_s = time.perf_counter() - began
        return Reply(response.status_code, response.headers, bytes(data), took_s, first_s, whole)

    async def get(self, path: str, **more: Any) -> Reply:
        return await self.ask(path, method="GET", **more)

    async def chat(
        self,
        api: str,
        model: str,
        prompt: str = "hi",
        *,
        headers: Mapping[str, str | None] | None = None,
        may_break: bool = False,
        **fields: Any,
    ) -> Reply:
        """A chat. ``api``: ``ollama`` or ``openai``; of ``fields`` that are ``...`` the body has none."""
        path = "/api/chat" if api == "ollama" else "/v1/chat/completions"
        body = {"model": model, "messages": [{"role": "user", "content": prompt}], **fields}
        body = {k: v for k, v in body.items() if v is not ...}
        return await self.ask(path, body, headers=headers, may_break=may_break)

    async def counted(self, name: str, *, port: int = 0, **labels: str) -> float:
        """The sum of a metric's samples that have these labels: of the gateway, or of the worker that tells on
        ``port``."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        rows = [line.rpartition(" ") for line in (await self._metrics(port)).splitlines()]
        return sum(float(v) for k, _, v in rows if k.partition("{")[0] == name and all(w in k for w in wanted))

    async def _metrics(self, port: int) -> str:
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        url = f"http://127.0.0.1:{port}/metrics" if port else "/metrics"
        return (await self.client.get(url, headers=headers)).text

    async def check(self) -> None:
        """What holds after every case."""
        for body in self.heard:
            found = _TRACES.search(body)
            assert found is None, f"a client was told {found and found[0]!r}"
        self.heard.clear()
        assert await self.site.leftovers(within_s=5) == []
        await self._settles()
        assert await _pending(self.site) == {}
        assert (await self.client.get("/api/version", timeout=1)).status_code == 200
        for process in (self.site.gateway, *self.site.workers):
            log = process.log
            new, self._read[process.pid] = log[self._read.get(process.pid, 0) :], len(log)
            assert not _TASK_TROUBLE.search(new), f"{process.command} logged:\n{new[-3000:]}"

    async def _settles(self) -> None:
        gauges = ("doublebuffer_queue_depth", "doublebuffer_in_flight")
        async with asyncio.timeout(5):
            while any([await self.counted(name) for name in gauges]):
                await asyncio.sleep(0.05)


async def _pending(site: Site) -> dict[str, int]:
    """Entries of stream groups that somebody took and never acknowledged."""
    client = redis.asyncio.Redis(port=site.redis.port)
    found = {}
    try:
        async for key in client.scan_iter(count=1000, _type="stream"):
            with contextlib.suppress(redis.asyncio.ResponseError):  # it may be gone by now
                for group in await client.xinfo_groups(key):
                    if group["pending"]:
                        found[key.decode()] = group["pending"]
    finally:
        await client.aclose()
    return found


async def redis_memory(site: Site) -> int:
    """Bytes in use."""
    client = redis.asyncio.Redis(port=site.redis.port)
    try:
        return int((await client.info("memory"))["used_memory"])
    finally:
        await client.aclose()


def rss(pid: int, *, peak: bool = False) -> int:
    """Bytes of memory that a process has resident, or at most has had."""
    name = "VmHWM" if peak else "VmRSS"
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name))


@contextlib.asynccontextmanager
async def run_bench(
    oai: Scripted | None = None,
    oll: Scripted | None = None,
    *,
    others: Sequence[Mapping[str, Any]] = (),
    more: Mapping[str, str] | None = None,
    key: str = "",
    api_key: str = "",
    workers: int = 2,
    store: Servers | None = None,
) -> AsyncIterator[Bench]:
    """``others``: further back ends. ``more``: in place of ``settings()``. ``key``: one of its keys. ``api_key``: the
    one that the first engine is sent. ``store``: a Redis that is running, in place of one without persistence.
    """
    async with contextlib.AsyncExitStack() as stack:
        one = await stack.enter_async_context(oai or Scripted("openai", kind="vllm", models=[OAI]))
        two = await stack.enter_async_context(oll or Scripted("ollama", models=[OLL]))
        backends = [backend("fb1", one.kind, one.url, api_key=api_key), backend("fb2", "ollama", two.url), *others]
        site = await stack.enter_async_context(
            run_site(backends, workers=workers, settings=more or settings(), key=key, store=store)
        )
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=30))
        yield Bench(site, one, two, client, key)


def forget(bench: Bench) -> None:
    """Both engines as if nobody had asked them yet."""
    for engine in (bench.oai, bench.oll):
        engine.requests.clear()
        engine.others.clear()
        engine.once.clear()
        engine.script = None
