"""A store that comes back empty while an engine embeds: every request is answered, and no input is asked for twice."""

from __future__ import annotations

import asyncio

from tests.embeddings.rig import House, house
from tests.rig.embeddings import close, unit_vector


async def _one(h: House, text: str) -> None:
    answer = await h.embed([text])
    assert answer.status_code == 200, answer.text
    assert close(answer.json()["embeddings"][0], unit_vector(text))


async def test_vectors_that_came_while_the_store_was_empty() -> None:
    async with house("vllm", lease_seconds=12) as h:
        engine = h.engine.embeddings
        engine.gate = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for i in range(10):
                group.create_task(_one(h, f"text {i}"))
            await engine.received(1)
            await h.waiting(0)
            await h.store.redis.flushall()
            engine.gate.set()
        assert sorted(text for call in engine.calls for text in call) == [f"text {i}" for i in range(10)]
        await h.quiet()
