"""What a request costs: the loop, while it is large, and its sender's turns, while it asks for much."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from gateway.intake import Intake, Order
from tests.gateway.rig import MODEL, Rig, rig


def watched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Order, bool]]:
    """The orders that are made from now on, and whether the loop's thread made them."""
    made: list[tuple[Order, bool]] = []
    order = Intake.order
    loops = threading.current_thread()

    def watch(self: Intake, *args: Any) -> Order:
        found = order(self, *args)
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


async def test_each_of_n_answers_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig() as r:
        made = watched(monkeypatch)
        await sent(r, "x", n=1, max_tokens=1)
        await sent(r, "y", n=4, max_tokens=1)
    one, four = (order.job for order, _ in made)
    assert (four.cost - one.cost, four.kv - one.kv) == (3, 3)
