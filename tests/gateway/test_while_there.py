"""Who waits for an answer hears that its client has left, from our own server and from another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gateway.call import Call, Message
from gateway.client import WhileThere
from gateway.refusal import ClientLeft

Leave = Callable[[], None]


class OurLine:
    def __init__(self) -> None:
        self.action: Leave | None = None
        self.there = True

    def body_here(self) -> bytes | None:
        return None

    @property
    def flows(self) -> bool:
        return self.there

    def write(self, data: bytes) -> None:
        raise AssertionError("nothing is sent here")

    def when_left(self, action: Leave | None) -> bool:
        self.action = action
        return self.there

    def leave(self) -> None:
        if self.action is not None:
            self.action()


def call(line: OurLine | None) -> Call:
    return Call("POST", "/", {}, "id", "", False, frozenset(), "", line=line)


async def nobody() -> Message:
    raise AssertionError("our own server is not asked")


def ours() -> tuple[WhileThere, Leave]:
    line = OurLine()
    return WhileThere(call(line), nobody), line.leave


def another() -> tuple[WhileThere, Leave]:
    left = asyncio.Event()

    async def receive() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    return WhileThere(call(None), receive), left.set


@pytest.mark.parametrize("server", [ours, another])
async def test_it_ends_what_is_waited_for_when_its_client_goes(
    server: Callable[[], tuple[WhileThere, Leave]],
) -> None:
    there, leave = server()
    asyncio.get_running_loop().call_later(0.01, leave)
    with pytest.raises(ClientLeft):
        async with there:
            await asyncio.get_running_loop().create_future()
    await asyncio.sleep(0)  # nothing of it is left over


@pytest.mark.parametrize("server", [ours, another])
async def test_whoever_leaves_behind_the_end_ends_nothing(server: Callable[[], tuple[WhileThere, Leave]]) -> None:
    there, leave = server()
    async with there:
        await asyncio.sleep(0)
    leave()
    await asyncio.sleep(0.01)


@pytest.mark.parametrize("server", [ours, another])
async def test_a_cancellation_of_somebody_elses_goes_on(server: Callable[[], tuple[WhileThere, Leave]]) -> None:
    there, leave = server()

    async def waits() -> None:
        async with there:
            await asyncio.get_running_loop().create_future()

    task: asyncio.Task[None] = asyncio.create_task(waits())
    await asyncio.sleep(0.01)
    leave()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_who_has_left_already_is_not_waited_for() -> None:
    line = OurLine()
    line.there = False
    with pytest.raises(ClientLeft):
        async with WhileThere(call(line), nobody):
            raise AssertionError("it has left")


async def test_a_server_that_fails_is_heard() -> None:
    async def receive() -> Message:
        await asyncio.sleep(0)
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        async with WhileThere(call(None), receive):
            await asyncio.get_running_loop().create_future()
