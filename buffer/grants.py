"""The worker's side of the lanes: what it pulls, renews, appends, gives back and settles. One method, one script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from buffer.access import Command
from buffer.control import Control, Handed, read_control
from buffer.failures import TAKEN_OVER_TOO_OFTEN, USED_UP
from buffer.heard import encode_said, fingerprint
from buffer.job import End, EndKind, encode_end
from buffer.outcomes import Reaped
from buffer.records import GivenBack, Held, Piece, ReleaseResult, Renewed
from buffer.said import NOTHING_LAST, AppendResult, Chunk, Last, SettleResult
from buffer.taking import Taking, micros, order_us

REAPED_AT_ONCE = 64
"""Leases that one script looks at; more would hold up the store's other clients."""


class Grants(Taking):
    """What a worker may do to jobs. All methods raise ``StoreUnavailable``; all but pull and reap may be run twice."""

    async def renew(self, worker: str, jobs: Sequence[Held], lease_s: float, *, stands: bool = False) -> list[Renewed]:
        """Keeps the leases of ``jobs``, and the worker's ``ctl`` stream, which it makes. Results in the same order.
        ``stands``: its standing orders too; if the store has lost them, the bell rings.
        """
        args = [part for job in jobs for part in job]
        holds_us = order_us(lease_s) if stands else 0
        reply = await self._run("renew", worker, micros(lease_s), holds_us, *args, patient=True)
        return [Renewed(status.decode(), inbox.decode(), *map(int, more)) for status, inbox, *more in reply]

    async def prefilled(self, jobs: Sequence[Piece]) -> int:
        """Frees the prefill credit of what has been read: ``upto`` tokens of a prompt; 0: the answer's first token has
        come. Pull afterwards: something may fit now.
        """
        return cast(int, await self._run("prefilled", *(part for job in jobs for part in job)))

    def append_call(self, chunks: Sequence[Chunk]) -> Command:
        return self._call("append", *(part for chunk in chunks for part in chunk))

    @staticmethod
    def appended(reply: Sequence[Any]) -> list[AppendResult]:
        """The reply to ``append_call``, read."""
        return [one if isinstance(one, int) else cast(Literal["lost", "orphan"], one.decode()) for one in reply]

    async def append(self, chunks: Sequence[Chunk]) -> list[AppendResult]:
        """Events to their reply keys. In the same order."""
        return self.appended(await self._run("append", *(part for chunk in chunks for part in chunk)))

    def release_call(self, id: str, fence: int, n: int, back: GivenBack) -> Command:
        end, leave_us = encode_end(back.failure or USED_UP), micros(back.leave_s)
        prefix, base = encode_said(back.said), fingerprint(back.said)
        return self._call("release", id, fence, n, back.why, prefix, base, back.spent, back.max_attempts, end, leave_us)

    def released(self, reply: bytes) -> ReleaseResult:
        self.store.ring("jobs", "inbox")
        return cast(ReleaseResult, reply.decode())

    async def release(self, id: str, fence: int, n: int, back: GivenBack) -> ReleaseResult:
        """Gives a running job back to its place; ``n`` = number of its last event + 1. Through the ``ReplyWriter``, if
        it has anything unsent.
        """
        return self.released(await self._once(self.release_call(id, fence, n, back)))

    def settle_call(
        self,
        id: str,
        fence: int,
        n: int,
        end: End,
        *,
        real_tokens: int | None = None,
        dead: str = "",
        drop: bool = False,
        last: Last = NOTHING_LAST,
        pace: bytes = b"",
    ) -> Command:
        kind: EndKind | Literal["drop"] = "drop" if drop else end.kind
        real = "" if real_tokens is None else real_tokens
        return self._call("settle", id, fence, n, kind, encode_end(end), real, dead, *last, pace)

    def settled(self, reply: int | bytes) -> SettleResult:
        self.store.ring("inbox")
        return reply if isinstance(reply, int) else cast(Any, reply.decode())

    async def settle(
        self,
        id: str,
        fence: int,
        n: int,
        end: End,
        *,
        real_tokens: int | None = None,
        dead: str = "",
        drop: bool = False,
    ) -> SettleResult:
        """The one end of a job: by its worker while it runs, by its gateway while it is held. ``n`` = number of its
        last event + 1.

        ``dead``: reason of a dead letter. ``drop``: erase it without a word, its gateway is gone.
        """
        call = self.settle_call(id, fence, n, end, real_tokens=real_tokens, dead=dead, drop=drop)
        return self.settled(await self._once(call))

    async def _once(self, call: Command) -> Any:
        (result,) = await self.store.exchange([call])
        if isinstance(result, Exception):
            raise result
        return result

    async def reap(self, lease_s: float, hold_s: float = 5.0) -> Reaped:
        """Looks for leases that ran out. Every worker and gateway, each ``lease_s / 4``."""
        args = (micros(lease_s), micros(hold_s), encode_end(TAKEN_OVER_TOO_OFTEN))
        total = Reaped(0, 0, 0, 0)
        while True:
            reaped = Reaped(*(await self._run("reap", *args, again=False)))
            self.store.ring("inbox", "jobs", "bell")
            total = Reaped(*(one + other for one, other in zip(total, reaped, strict=True)))
            if reaped.expired < REAPED_AT_ONCE:
                return total

    async def ring_bell(self) -> None:
        """Credit was freed by somebody who will not pull: let the others know."""
        await self._once(("XADD", self.keys.bell, "MAXLEN", 16, "*", "k", "bell"))
        self.store.ring("bell")

    async def controls(
        self, worker: str, last_id: str, block_s: float = 30.0, *, drop: bool = False
    ) -> tuple[str, list[Control | Handed]]:
        """What gateways told this worker beyond ``last_id`` (first ``0-0``), and the id to go on from. Waits up to
        ``block_s``. ``drop``: what lies before that is done with.
        """
        key = self.keys.ctl(worker)
        trim = {key: last_id} if drop else None
        controls: list[Control | Handed] = []
        for _, entries in await self.store.read_streams({key: last_id}, block_s, 100, trim=trim):
            for entry_id, fields in entries:
                last_id = entry_id
                if (control := read_control(fields)) is not None:
                    controls.append(control)
        return last_id, controls
