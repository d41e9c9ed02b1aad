"""Answers kept for whoever asks the same, and the questions that are being answered: over all gateways of a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

import msgspec

from buffer.access import Command, Store
from buffer.cached import Cached, decode_cached
from buffer.keys import CLAIMED_S, DONE_REPLY_S, answers
from buffer.lanes import Lanes

EVERY = "*"
"""In place of a model: all of them."""
_SETTLE_S = 1.0
"""An answer's last words wait for its being kept; no longer than so."""
_EAGER_S = 2.0


class Claim(NamedTuple):
    """A job that is to answer a question if nobody does."""

    job: str
    pool: str
    client: str
    """Who asks; of no two requests the same."""


class Asked(Protocol):
    """What is asked of which model."""

    @property
    def digest(self) -> str: ...

    @property
    def model(self) -> str: ...


class Flight(NamedTuple):
    """A job that somebody else sent to answer it."""

    job: str
    pool: str
    age_us: int


@dataclass(frozen=True, slots=True)
class Shelf:
    """``ttl_s``: how long answers are kept. ``most_bytes``: of all of them. Methods raise ``StoreUnavailable``."""

    store: Store
    ttl_s: float = 300.0
    most_bytes: int = 67_108_864
    clock: Callable[[], int] = lambda: 0
    """The instant given to scripts, µs. 0, as always but in tests: the store's own clock."""

    def flight(self, digest: str) -> str:
        """The key of what stands for a question that is being answered."""
        return f"{answers(self.store.prefix)}flight:{digest}"

    async def ask(
        self, question: Asked, claim: Claim | None, *, reads: bool, instead: str = ""
    ) -> Cached | Flight | None:
        """The answer, if it is kept and the client ``reads`` what is; the job that is at it; None: neither, and the
        question is that of the ``claim`` now. ``instead``: a job that has turned out to give no answer.
        """
        job, pool, client = claim or ("", "", "")
        about = (question.digest, question.model, int(reads))
        args = [self.clock(), *about, job, pool, client, CLAIMED_S, instead]
        command = self.store.call("ask", keys=[answers(self.store.prefix)], args=args)
        (result,) = await self.store.exchange([command], within_s=_EAGER_S)
        if isinstance(result, Exception):
            raise result
        match result:
            case [b"hit", bytes(data)]:
                return _read(data)
            case [b"job", bytes(id), bytes(name), bytes(age)]:
                return Flight(id.decode(), name.decode(), int(age))
            case _:
                return None

    async def keep(self, question: Asked, data: bytes, *, age_us: int) -> None:
        """``data``: as ``encode_cached`` gives it. ``age_us``: how long ago the question came."""
        await self._settle([self._keep(question, data, age_us, "")])

    async def land(self, question: Asked, data: bytes, *, age_us: int, job: str, lanes: Lanes, failed: bool) -> None:
        """The same for the end of a job that others may have joined; ``data`` is empty where its answer is not to be
        kept. What it said goes as soon as that of other jobs, and so does what it was asked.
        """
        commands = [self._keep(question, data, age_us, job), ("EXPIRE", lanes.keys.reply(job), DONE_REPLY_S)]
        if failed:
            commands.append(("HDEL", lanes.keys.job(job), "body"))
        await self._settle(commands)

    def _keep(self, question: Asked, data: bytes, age_us: int, job: str) -> Command:
        ttl_us = round(self.ttl_s * 1e6)
        args = [self.clock(), question.digest, question.model, data, ttl_us, self.most_bytes, age_us, job]
        return self.store.call("keep", keys=[answers(self.store.prefix)], args=args)

    async def _settle(self, commands: list[Command]) -> None:
        for result in await self.store.exchange(commands, within_s=_SETTLE_S):
            if isinstance(result, Exception):
                raise result

    async def purge(self, model: str) -> int:
        """Forgets the answers of a model (``EVERY``: of all), and has those that are being made not kept. Gives how
        many there were.
        """
        args = [self.clock(), model, CLAIMED_S]
        return cast(int, await self.store.script("purge", keys=[answers(self.store.prefix)], args=args))

    async def size(self) -> tuple[int, int]:
        """How many answers are kept, and bytes that they take."""
        base = answers(self.store.prefix)
        count, held = await self.store.exchange([("ZCARD", f"{base}answers"), ("GET", f"{base}held")])
        for result in (count, held):
            if isinstance(result, Exception):
                raise result
        return count, int(held or 0)


def _read(data: bytes) -> Cached | None:
    """None: a gateway of another version has kept it."""
    try:
        return decode_cached(data)
    except msgspec.MsgspecError:
        return None
