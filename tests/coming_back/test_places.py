"""Places in an answer that no event ever told."""

from __future__ import annotations

import asyncio

import pytest

from buffer.job import Finish, Reasoning, Usage
from tests.coming_back.rig import BODIES, body, gates, leaves, reading, told


@pytest.mark.parametrize("path", BODIES)
async def test_an_event_that_was_never_told_is_no_place(path: str) -> None:
    """However far behind a place that there is; and behind the last there is nothing."""
    async with gates(None, 1) as g:
        id = await leaves(g.one, path, body(path, stream=True))
        job = await g.hands.take()
        g.hands.say(job, Reasoning("Well"), "Hel", "lo", " you", Finish("stop"), Usage(7, 4))
        await g.hands.end(job)
        await g.state(id, state="done")
        heard = [event.id for event in await told(g.one, id)]

        async def status(after: str) -> int:
            headers = {"Last-Event-ID": after}
            return (await g.one.client.get(f"/v1/requests/{id}/stream", headers=headers)).status_code

        places = {event.partition(".")[0] for event in heard[:-1]}
        for place in places:
            inside = max(int(event.partition(".")[2] or 0) for event in heard if event.partition(".")[0] == place)
            assert await status(f"{place}.{inside + 1}") == 409
            assert await status(f"{place}.99999") == 409
        for more in (1, 99999):
            assert await status(f"{heard[-1]}.{more}") == 204


async def test_a_place_that_is_none_yet_is_found_out_when_the_answer_goes_on() -> None:
    path = "/v1/chat/completions"
    async with gates(None, 1) as g:
        id = await leaves(g.one, path, body(path, stream=True))
        job = await g.hands.take()
        g.hands.say(job, "Hel")
        async with reading(g.one, id) as reader:
            first = await reader.next()
            while "Hel" not in first.data:
                first = await reader.next()
        asked = asyncio.create_task(
            g.one.client.get(f"/v1/requests/{id}/stream", headers={"Last-Event-ID": f"{first.id}.7"})
        )
        await asyncio.sleep(0.3)
        assert not asked.done()
        g.hands.say(job, "lo")
        assert (await asked).status_code == 409
        g.hands.say(job, Finish("stop"))
        await g.hands.end(job)
