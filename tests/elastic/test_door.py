"""A gateway before a spare: it lets in who asks for what will be started, and turns away who would wait in vain."""

from __future__ import annotations

import asyncio

from buffer.backend import ModelInfo
from buffer.load import BackendState
from gateway.delivery import Timing
from tests.gateway.rig import MODEL, PROMPT, Rig, rig, until

QUICK = Timing(first_byte_s=0.2, heartbeat_s=0.2, cold_s=0.0)


def spare(it: Rig, **changes: object) -> BackendState:
    facts: dict[str, object] = {"name": "engine", "up": False, "models": [], "aliases": {MODEL: MODEL}}
    return it.hands.state(**(facts | {"spare": "stopped", "comes_in_s": 300.0} | changes))


async def test_its_model_is_listed_before_it_ever_ran() -> None:
    async with rig(timing=QUICK, show=False) as it:
        await it.hands.show(spare(it))
        listed = (await it.client.get("/v1/models")).json()["data"]
        assert [model["id"] for model in listed] == [MODEL]
        assert [model["name"] for model in (await it.client.get("/api/tags")).json()["models"]] == [MODEL]


async def test_who_asks_waits_with_signs_of_life_and_is_answered() -> None:
    async with rig(timing=QUICK, show=False, queue_timeout_seconds=60.0) as it:
        await it.hands.show(spare(it))
        body = {"model": MODEL, "messages": PROMPT, "stream": True}
        async with it.client.stream("POST", "/v1/chat/completions", json=body) as answer:
            assert answer.status_code == 200
            lines = answer.aiter_lines()
            assert (await anext(lines)).startswith(":")
            await it.hands.show(spare(it, spare="starting"))
            assert (await anext(lines)) == ""
            assert (await anext(lines)).startswith(":")
            await it.hands.show(spare(it, up=True, spare="up", models=[ModelInfo(MODEL)]))
            job = await it.hands.answer("Hello")
            told = [line async for line in lines]
        assert any("Hello" in line for line in told)
        assert told[-2] == "data: [DONE]"
        deadline = await it.store.redis.hget(it.lanes.keys.job(job.id), "deadline")
        arrived = await it.store.redis.hget(it.lanes.keys.job(job.id), "arr")
        assert (int(deadline) - int(arrived)) / 1e6 == 360.0


async def test_one_that_could_not_be_started_turns_away_with_the_reason() -> None:
    async with rig(timing=QUICK, show=False) as it:
        await it.hands.show(spare(it, spare="failed", error="Its start command ended with exit code 1."))
        refused = await it.client.post("/v1/chat/completions", json={"model": MODEL, "messages": PROMPT})
        assert refused.status_code == 503
        assert refused.json()["error"]["message"] == (
            f"The back end that serves '{MODEL}' could not be started: Its start command ended with exit code 1."
        )
        assert "retry-after" in refused.headers


async def test_what_it_takes_to_start_counts_as_no_queue() -> None:
    """A long wait for a spare would have the door refuse whoever comes behind it."""
    async with rig(timing=QUICK, show=False, refuse_wait_seconds=1.0) as it:
        await it.hands.show(spare(it))
        body = {"model": MODEL, "messages": PROMPT, "stream": False}
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(it.client.post("/v1/chat/completions", json=body)) for _ in range(3)]
            await it.waiting(3)
            await asyncio.sleep(1.2)
            asked.append(group.create_task(it.client.post("/v1/chat/completions", json=body)))
            await it.waiting(4)
            for _ in range(4):
                await it.hands.answer("Hello")
        assert [task.result().status_code for task in asked] == [200] * 4


async def test_nobody_is_told_that_a_resting_spare_is_down() -> None:
    async with rig(timing=QUICK, show=False) as it:
        await it.hands.show(spare(it))
        assert 'backend_up{backend="engine"}' not in (await it.client.get("/metrics")).text

        async def is_up() -> bool:
            return 'backend_up{backend="engine"} 1.0' in (await it.client.get("/metrics")).text

        await it.hands.show(spare(it, up=True, spare="up"))
        await until(is_up)
