"""How a worker comes by jobs: it pulls them, or leaves word of what it would pull. One method, one script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from buffer.access import Command, Store
from buffer.failures import EXPIRED
from buffer.job import LANES, Lane, encode_end
from buffer.keys import Keys
from buffer.memory import Memory
from buffer.records import Granted, Limits, Piece, Pulled


def micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def order_us(lease_s: float) -> int:
    """How long a standing order holds that is not renewed, µs: half a lease, which is two renewals. To a worker that
    lives but does not move no more jobs go than that, and each is another's a lease later.
    """
    return micros(lease_s / 2)


class Recalled(NamedTuple):
    jobs: int
    at_us: int
    """What was granted after this instant was left alone."""


class Taking:
    """All methods raise ``StoreUnavailable``; all but pull may be run twice."""

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
        pieces = [Piece(id.decode(), int(fence), int(upto)) for id, fence, upto in reply[2]]
        if pieces or reply[3]:
            self.store.ring("ctl")
        return Pulled(jobs, reply[1], bodies, pieces, int(reply[3]), reply[4] == 1)

    async def stand(
        self, worker: str, backend: str, models: Sequence[str], *, limits: Limits, lease_s: float, swaps: bool = False
    ) -> None:
        """Leaves word of what the worker would have for a back end while nothing runs there and nobody waits: such a
        job goes to it as it is submitted, by the worker's ``ctl`` stream. It holds for ``order_us``, and is renewed by
        ``renew``. ``swaps``: the back end has one model after the other in its memory.
        """
        order = (limits.segment, limits.pause_us, micros(lease_s), int(swaps))
        await self._run("stand", worker, backend, order_us(lease_s), *order, *models)

    async def unstand(self, worker: str, backend: str) -> None:
        """Takes that word back."""
        await self._run("stand", worker, backend, 0)

    async def recall(self, worker: str, backend: str, in_hand: Sequence[tuple[str, int]]) -> Recalled:
        """Puts back the jobs that this worker was granted for ``backend`` and knows nothing of, as after a pull whose
        answer was lost. ``in_hand``: id and fence of the others. Not while a pull for that back end is under way.
        """
        reply = await self._run("recall", worker, backend, *(part for job in in_hand for part in job))
        self.store.ring("jobs", "inbox")
        return Recalled(int(reply[0]), int(reply[1]))

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
