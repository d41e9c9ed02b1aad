"""A gateway that was started a moment ago refuses as one that has seen all."""

from __future__ import annotations

import asyncio
import time

from buffer.load import read_states
from tests.gateway.one_place import Place, one_place
from tests.gateway.rig import until


async def learned(place: Place) -> bool:
    """The back end tells what its answers take."""
    (state,) = await read_states(place.lanes.store, place.lanes.keys)
    figures = {name: seen for told in state.learned.values() for name, (_, seen) in told.items()}
    return figures.get("token_rate", 0) >= 8


async def test_the_first_burst_is_not_let_in_whole() -> None:
    async with one_place(1.0, refuse_wait_seconds=2.0) as place:
        for k in range(8):
            assert (await place.ask(f"Warm {k}", 20)).status_code == 200
        await until(lambda: learned(place))
        async with place.another() as fresh:
            assert (await fresh.ask("The first", 20)).status_code == 200
            waited: list[float] = []
            told: list[int] = []

            async def comes(k: int) -> None:
                asked_at = time.monotonic()
                got = await fresh.ask(f"Question {k}", 20)
                if got.status_code == 200:
                    waited.append(time.monotonic() - asked_at)
                else:
                    error = got.json()["error"]
                    assert (got.status_code, error["code"]) == (503, "wait_too_long")
                    told.append(int(got.headers["retry-after"]))
                    assert f"try again in {told[-1]} s." in error["message"]

            await asyncio.gather(*(comes(k) for k in range(40)))
    assert len(told) >= 20, "all forty were let in"
    assert len(waited) >= 3
    assert max(waited) < 4.5
