"""How a worker's attempt ends: settled, given back, or dropped without a word."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from buffer.access import Command
from buffer.attempt import Attempt
from buffer.job import End
from buffer.lanes import Lanes
from buffer.records import GivenBack


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True, eq=False)
class Settle:
    end: End
    real_tokens: int | None = None
    dead: str = ""
    drop: bool = False
    pace: bytes = b""
    result: asyncio.Future[Any] = field(default_factory=_future)

    @property
    def unwanted(self) -> bool:
        """If the store does not know the job, nobody will put it there again for this: its client has left."""
        return self.drop or self.end.kind == "cancelled"

    @property
    def carries(self) -> bool:
        """It takes along what was said last."""
        return not self.drop

    def call(self, lanes: Lanes, attempt: Attempt) -> Command:
        return lanes.settle_call(
            attempt.id,
            attempt.fence,
            attempt.n + 1,
            self.end,
            real_tokens=self.real_tokens,
            dead=self.dead,
            drop=self.drop,
            last=attempt.last(),
            pace=self.pace,
        )

    def read(self, lanes: Lanes, reply: Any) -> str | int:
        return lanes.settled(reply)


@dataclass(slots=True, eq=False)
class Release:
    back: GivenBack
    result: asyncio.Future[Any] = field(default_factory=_future)
    unwanted = False
    carries = False

    def call(self, lanes: Lanes, attempt: Attempt) -> Command:
        return lanes.release_call(attempt.id, attempt.fence, attempt.n + 1, self.back)

    def read(self, lanes: Lanes, reply: Any) -> str | int:
        return lanes.released(reply)


Closing = Settle | Release
