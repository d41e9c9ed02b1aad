"""Engines that die in the middle of answers: each client reads one text, the one that would have come."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.acceptance.site import Site, backend, run_site
from tests.rig.llama import MODEL, LlamaServer, run_llama

pytestmark = pytest.mark.timeout(120)

PROMPTS = ["Tell me about the sea.", "Tell me about the stars.", "What is a harbor?", "Say something quiet."]
LONG: dict[str, Any] = {"temperature": 0, "seed": 1, "max_tokens": 400, "ignore_eos": True}


def body(prompt: str, **more: Any) -> dict[str, Any]:
    """``ignore_eos``: the tiny model stops too soon to be caught in the middle."""
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    return {"model": MODEL, "messages": [{"role": "user", "content": prompt}], **off, **LONG, **more}


async def unbroken(server: LlamaServer, asked: dict[str, Any]) -> str:
    """What the engine itself says."""
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client:
        told = (await client.post("/v1/chat/completions", json=asked)).json()
    return str(told["choices"][0]["message"]["content"])


class Reader:
    """One client's answer, chunk by chunk."""

    def __init__(self) -> None:
        self.text = ""
        self.roles = 0
        self.ends: list[str] = []
        self.ids: set[str] = set()
        self.fingerprints: set[str] = set()
        self.usage: dict[str, Any] = {}
        self.began = asyncio.Event()

    async def read(self, url: str, asked: dict[str, Any]) -> None:
        asked = asked | {"stream": True, "stream_options": {"include_usage": True}}
        async with (
            httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client,
            client.stream("POST", "/v1/chat/completions", json=asked) as response,
        ):
            assert response.status_code == 200, await response.aread()
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    self._take(json.loads(line.removeprefix("data: ")))

    def _take(self, chunk: dict[str, Any]) -> None:
        assert "error" not in chunk, chunk
        self.ids.add(chunk["id"])
        self.fingerprints.add(chunk.get("system_fingerprint", ""))
        self.usage = chunk.get("usage") or self.usage
        for choice in chunk["choices"]:
            self.roles += "role" in choice["delta"]
            self.text += choice["delta"].get("content") or ""
            if choice["finish_reason"]:
                self.ends.append(choice["finish_reason"])
        if self.text:
            self.began.set()


@contextlib.asynccontextmanager
async def installed(*backends: dict[str, Any], **settings: str) -> AsyncIterator[Site]:
    async with run_site(list(backends), workers=1, settings={"DOUBLEBUFFER_WINDOW_MS": "0", **settings}) as site:
        yield site


async def resumed(site: Site) -> list[str]:
    """Lines of the worker's log about attempts that broke."""
    return [line for line in site.workers[0].log.splitlines() if " broken " in line]


@pytest.mark.parametrize("think", [False, True])
async def test_an_engine_is_killed_and_another_goes_on(think: bool) -> None:
    """Both the real llama.cpp; four clients at once on the one that dies."""
    more: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": think}}
    with run_llama() as doomed, run_llama() as other:
        expected = [await unbroken(other, body(prompt, **more)) for prompt in PROMPTS]
        spare = backend("other", "llamacpp", other.url, fallback_for=["doomed"])
        async with installed(backend("doomed", "llamacpp", doomed.url), spare) as site:
            readers = [Reader() for _ in PROMPTS]
            async with asyncio.TaskGroup() as group:
                for reader, prompt in zip(readers, PROMPTS, strict=True):
                    group.create_task(reader.read(site.url, body(prompt, **more)))
                for reader in readers:
                    await reader.began.wait()
                # Stopped first, so that all are caught in the middle.
                os.kill(doomed.pid, signal.SIGSTOP)
                caught = [len(reader.text) for reader in readers]
                doomed.kill()
            assert [reader.text for reader in readers] == expected
            assert any(at < len(text) for at, text in zip(caught, expected, strict=True))
            for reader in readers:
                assert (reader.roles, reader.ends, len(reader.ids)) == (1, ["length"], 1)
                assert len(reader.fingerprints) == 1
                assert LONG["max_tokens"] - 1 <= reader.usage["completion_tokens"] <= LONG["max_tokens"]
            assert await resumed(site)
            assert await site.leftovers() == []
