"""What a request costs: the loop, while it is large, and its sender's turns, while it asks for much."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from gateway import catalog
from gateway.catalog import Catalog
from gateway.delivery import Timing
from gateway.intake import Intake, Order
from tests.gateway.rig import MODEL, Rig, rig


def watched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Order, bool]]:
    """The orders that are made from now on, and whether the loop's thread made them."""
    made: list[tuple[Order, bool]] = []
    order = Intake.order
    loops = threading.current_thread()

    def watch(self: Intake, *args: Any, **named: Any) -> Order:
        found = order(self, *args, **named)
        made.append((found, threading.current_thread() is loops))
        return found

    monkeypatch.setattr(Intake, "order", watch)
    return made


async def sent(r: Rig, text: str, **more: Any) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], **more}
    async with asyncio.TaskGroup() as group:
        got = group.create_task(r.client.post("/v1/chat/completions", json=body))
        await r.hands.answer("hi")
    assert (await got).status_code == 200


async def test_large_chats_are_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig() as r:
        made = watched(monkeypatch)
        await sent(r, "x" * 300_000)
        await sent(r, "x")
    assert [on_the_loop for _, on_the_loop in made] == [False, True]


async def test_a_store_that_does_not_answer_is_waited_for_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_: Catalog) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(catalog, "_READ_S", 0.2)
    async with rig(show=False, timing=Timing(cold_s=0)) as r:
        monkeypatch.setattr(Catalog, "_ask", never)
        began_at = time.monotonic()
        answers = await asyncio.gather(*(r.client.get("/v1/models") for _ in range(20)))
        assert time.monotonic() - began_at < 2
    assert {answer.status_code for answer in answers} == {503}


async def test_each_of_n_answers_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig() as r:
        made = watched(monkeypatch)
        await sent(r, "x", n=1, max_tokens=1)
        await sent(r, "y", n=4, max_tokens=1)
    one, four = (order.job for order, _ in made)
    assert (four.cost - one.cost, four.kv - one.kv) == (3, 2), "claimed is half of what is expected"
