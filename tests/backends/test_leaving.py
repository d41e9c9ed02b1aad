"""Connections to a back end: used again when an answer is complete, closed at once when it is left."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from buffer.backend import Kind
from tests.backends.rig import KINDS, backend, chat, closed_soon, run, scripted
from tests.rig.script import (
    HEAD,
    HOLD,
)


@pytest.mark.parametrize("kind", KINDS)
async def test_connections_are_used_again(kind: Kind) -> None:
    async with scripted(kind) as engine, backend(engine.url, kind) as of:
        for _ in range(5):
            assert (await run(of)).error is None
        assert engine.connected == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_half_read_connections_are_not(kind: Kind) -> None:
    async with scripted(kind) as engine, backend(engine.url, kind) as of:
        engine.once.append(["one", HOLD])
        async with aclosing(of.chat(chat(), upstream_model="up", request_id="r")) as stream:
            await anext(stream)
        assert (await run(of)).error is None
        assert engine.connected == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("script", [[HOLD], [HEAD, HOLD]])
async def test_giving_up_before_the_first_byte_closes_the_connection(kind: Kind, script: Any) -> None:
    async with scripted(kind, script) as engine, backend(engine.url, kind) as of:
        task = asyncio.create_task(run(of))
        request = await engine.received()
        task.cancel()
        await closed_soon(request)
        assert task.cancelled() or task.done()


@pytest.mark.parametrize("kind", KINDS)
async def test_giving_up_while_words_come_closes_the_connection(kind: Kind) -> None:
    async with scripted(kind, ["one", HOLD]) as engine, backend(engine.url, kind) as of:
        stream = of.chat(chat(), upstream_model="up", request_id="r")
        await anext(stream)
        await stream.aclose()
        await closed_soon(await engine.received())


@pytest.mark.parametrize("kind", ["ollama", "llamacpp"])
async def test_giving_up_on_several_answers_closes_the_one_under_way(kind: Kind) -> None:
    async with scripted(kind, ["one", HOLD]) as engine, backend(engine.url, kind) as of:
        stream = of.chat(chat(n=3), upstream_model="up", request_id="r")
        await anext(stream)
        await stream.aclose()
        await closed_soon(await engine.received())
        assert len(engine.requests) == 1
