"""The worker's side of the lanes: what it pulls, renews, appends, gives back and settles. One method, one script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

from buffer.access import Command, Store
from buffer.control import Control, read_control
from buffer.failures import EXPIRED, TAKEN_OVER_TOO_OFTEN, USED_UP
from buffer.heard import encode_said, fingerprint
from buffer.job import LANES, End, EndKind, Lane, encode_end
from buffer.keys import Keys
from buffer.memory import Memory
from buffer.outcomes import Reaped
from buffer.records import GivenBack, Granted, Held, Limits, Piece, Pulled, ReleaseResult, Renewed
from buffer.said import NOTHING_LAST, AppendResult, Chunk, Last, SettleResult

REAPED_AT_ONCE = 64
"""Leases that one script looks at; more would hold up the store's other clients."""


def micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


class Grants:
    """What a worker may do to jobs. All methods raise ``StoreUnavailable``; all but pull and reap may be run twice."""

    def __init__(self, store: Store, pool: str = "default") -> None:
        self.store = store
        self.keys = Keys(pool, store.prefix)
        self.clock: Callable[[], int] = lambda: 0
        """The instant given to the scripts, µs. 0, as always but in tests: the store's own clock."""

    def _call(self, name: str, *args: Any) -> Command:
        return Store.call(name, keys=[self.keys.base], args=[self.clock(), *args])

    async def _run(self, name: str, *args: Any, again: bool = True, patient: bool = False) -> Any:
        args = (self.clock(), *args)
        return await self.store.script(name, keys=[self.keys.base], args=args, again=again, patient=patient)

    async def pull(
        self,
        worker: str,
        backend: str,
        models: Sequence[str],
        *,
        want: int,
        limits: Limits,
        lease_s: float,
        lanes: Sequence[Lane] = LANES,
        left_by: Sequence[str] = (),
        goes_on: bool = True,
        memory: Memory | None = None,
    ) -> Pulled:
        """Up to ``want`` jobs of these models (queue names), best first, as far as they fit the limits.

        ``left_by``: only those that one of these back ends has just failed and leaves to others. ``goes_on``:
        the back end can go on with an answer that has begun. ``memory``: of one that swaps models, for which jobs of
        other models wait.
        """
        reply = await self._run(
            "pull",
            worker,
            backend,
            want,
            limits.slots,
            limits.kv,
            limits.prefill,
            limits.long,
            limits.reserved_slots,
            limits.kv_reserve,
            limits.segment,
            limits.pause_us,
            micros(lease_s),
            encode_end(EXPIRED),
            int(goes_on),
            len(left_by),
            *left_by,
            len(lanes),
            *lanes,
            *([0] if memory is None else [1 + len(memory.queues), memory.age_us, *memory.queues]),
            *models,
            again=False,
        )
        jobs = [Granted.read(fields[:-1]) for fields in reply[0]]
        bodies = {job.id: fields[-1] for job, fields in zip(jobs, reply[0], strict=True) if fields[-1]}
        self.store.ring("inbox")
        notes = [note.decode() for note in reply[2]]
        half = len(notes) // 2
        pieces = [Piece(id.decode(), int(fence), int(upto)) for id, fence, upto in reply[3]]
        if pieces or reply[4]:
            self.store.ring("ctl")
        return Pulled(jobs, reply[1], bodies, dict(zip(notes[:half], notes[half:], strict=True)), pieces, int(reply[4]))

    async def idle(self, seen: dict[str, str], block_s: float = 30.0) -> bool:
        """Waits until a job is submitted or put back, or credit is freed, since the pull that gave ``seen``. False:
        nothing came.
        """
        return bool(await self.store.read_streams(seen, block_s, 1))

    async def renew(self, worker: str, jobs: Sequence[Held], lease_s: float) -> list[Renewed]:
        """Keeps the leases of ``jobs``, and the worker's ``ctl`` stream, which it makes. Results in the same order."""
        args = [part for job in jobs for part in job]
        reply = await self._run("renew", worker, micros(lease_s), *args, patient=True)
        return [Renewed(status.decode(), inbox.decode(), *map(int, more)) for status, inbox, *more in reply]

    async def recall(self, worker: str, backend: str, in_hand: Sequence[tuple[str, int]]) -> int:
        """Puts back the jobs that this worker was granted for ``backend`` and knows nothing of, as after a pull whose
        answer was lost. ``in_hand``: id and fence of the others. Not while a pull for that back end is under way.
        """
        reply = await self._run("recall", worker, backend, *(part for job in in_hand for part in job))
        self.store.ring("jobs", "inbox")
        return cast(int, reply)

    async def prefilled(self, jobs: Sequence[Piece]) -> int:
        """Frees the prefill credit of what has been read: ``upto`` tokens of a prompt; 0: the answer's first token has
        come. Pull afterwards: something may fit now.
        """
        return cast(int, await self._run("prefilled", *(part for job in jobs for part in job)))

    async def body(self, ids: Sequence[str]) -> list[bytes | None]:
        """The chats of jobs, as they were submitted. None: the job is gone."""
        results = await self.store.exchange([("HGET", self.keys.job(id), "body") for id in ids])
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results

    async def traces(self, ids: Sequence[str]) -> list[str]:
        """What traces jobs belong to, as ``NewJob.trace``."""
        results = await self.store.exchange([("HGET", self.keys.job(id), "trace") for id in ids])
        return [one.decode() if isinstance(one, bytes) else "" for one in results]

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

    async def controls(self, worker: str, last_id: str, block_s: float = 30.0) -> tuple[str, list[Control]]:
        """What gateways told this worker beyond ``last_id`` (first ``0-0``), and the id to go on from. Waits up to
        ``block_s``.
        """
        key = self.keys.ctl(worker)
        controls: list[Control] = []
        for _, entries in await self.store.read_streams({key: last_id}, block_s, 100):
            for entry_id, fields in entries:
                last_id = entry_id
                if (control := read_control(fields)) is not None:
                    controls.append(control)
        return last_id, controls
