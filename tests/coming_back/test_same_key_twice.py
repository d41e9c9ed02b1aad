"""A connection to the store that breaks has it asked once more: a key that was claimed twice so is claimed once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from buffer.access import Store
from tests.coming_back.rig import gates
from tests.coming_back.same_key import post


async def test_a_claim_that_came_to_the_store_twice_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Store.script

    async def twice(store: Store, name: str, **more: Any) -> Any:
        if name == "claim":
            await script(store, name, **more)
        return await script(store, name, **more)

    monkeypatch.setattr(Store, "script", twice)
    async with gates(None, 1) as g, asyncio.timeout(3):
        first = post(g.one)
        await g.hands.answer("Hi")
        assert '"content":"Hi"' in (await first).text
