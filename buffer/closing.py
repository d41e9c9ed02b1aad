"""How a worker's attempt ends: settled, given back, or dropped without a word."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Literal

from buffer.access import Command
from buffer.attempt import Attempt
from buffer.job import End
from buffer.lanes import Lanes


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True, eq=False)
class Settle:
    end: End
    real_tokens: int | None = None
    dead: str = ""
    drop: bool = False
    result: asyncio.Future[Any] = field(default_factory=_future)

    def call(self, lanes: Lanes, attempt: Attempt) -> Command:
        return lanes.settle_call(
            attempt.id,
            attempt.fence,
            attempt.n + 1,
            self.end,
            real_tokens=self.real_tokens,
            dead=self.dead,
            drop=self.drop,
        )

    def read(self, lanes: Lanes, reply: Any) -> str | int:
        return lanes.settled(reply)


@dataclass(slots=True, eq=False)
class Release:
    why: Literal["error", "segment", "drain"]
    prefix: str = ""
    base: str = ""
    spent: int = 0
    max_attempts: int = 3
    failure: End | None = None
    leave_s: float = 0.0
    result: asyncio.Future[Any] = field(default_factory=_future)

    def call(self, lanes: Lanes, attempt: Attempt) -> Command:
        return lanes.release_call(
            attempt.id,
            attempt.fence,
            attempt.n + 1,
            why=self.why,
            prefix=self.prefix,
            base=self.base,
            spent=self.spent,
            max_attempts=self.max_attempts,
            failure=self.failure,
            leave_s=self.leave_s,
        )

    def read(self, lanes: Lanes, reply: Any) -> str | int:
        return lanes.released(reply)


Closing = Settle | Release
