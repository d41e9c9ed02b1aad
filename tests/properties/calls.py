"""Calls of scripts, as they go to the store."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from buffer.access import Command
from buffer.lanes import Lanes
from buffer.records import Limits, Pulled
from buffer.scripting import by_sha
from tests.properties import pulls

asked: ContextVar[pulls.Asked | None] = ContextVar("asked", default=None)
"""What the pull that is on its way may take, or the standing order."""


@dataclass(frozen=True)
class Call:
    """A command that runs a script."""

    name: str
    args: tuple[Any, ...]
    """As the script has them; the first is the instant, of those that take one."""


def call_of(command: Command) -> Call | None:
    if command[0] != "EVALSHA":
        return None
    return Call(by_sha()[command[1]].name, tuple(command[4:]))


def owned(call: Call) -> list[tuple[str, int]]:
    """Jobs and fences under which a call wants something."""
    match call.name:
        case "append":
            start, step = 1, 5
        case "renew":
            start, step = 4, 3
        case "settle" | "release":
            return [(str(call.args[1]), int(call.args[2]))]
        case _:
            return []
    return [(str(call.args[i]), int(call.args[i + 1])) for i in range(start, len(call.args), step)]


def watch_pulls(lanes: Lanes) -> None:
    """Has what these lanes pull, and what comes by standing orders, checked against what may be had."""
    pull, stand = lanes.pull, lanes.stand

    async def pulled(
        worker: str, backend: str, models: Sequence[str], *, want: int, limits: Limits, **more: Any
    ) -> Pulled:
        token = asked.set(pulls.Asked(backend, tuple(models), limits, want, 0))
        try:
            return await pull(worker, backend, models, want=want, limits=limits, **more)
        finally:
            asked.reset(token)

    async def stood(worker: str, backend: str, models: Sequence[str], *, limits: Limits, **more: Any) -> None:
        token = asked.set(pulls.Asked(backend, tuple(models), limits, 1, 0))
        try:
            await stand(worker, backend, models, limits=limits, **more)
        finally:
            asked.reset(token)

    lanes.pull, lanes.stand = pulled, stood  # type: ignore[method-assign]
