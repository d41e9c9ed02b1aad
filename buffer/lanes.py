"""The lanes: jobs that wait, run and end. One method, one script in ``scripts/``, one change of state.

The gateway's side is here, and what looks on; the worker's side is ``grants.Grants``, and a ``Lanes`` has both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, cast

from buffer.access import Command
from buffer.failures import EXPIRED
from buffer.grants import Grants
from buffer.job import LANES, End, EndKind, Lane, encode_end
from buffer.keys import BODY_S
from buffer.outcomes import CancelResult, Requeued, Watched
from buffer.past import Past
from buffer.readings import Depth, Leftover, Load, Peeked, Place
from buffer.records import JobState, NewJob, Submitted
from buffer.taking import micros

LARGE_BODY = 65536
"""Bytes above which a body is put into the record ahead of the script, so that no script carries megabytes."""
WATCHED_AT_ONCE = 500


class Lanes(Grants):
    """Every change of a job's state. All methods raise ``StoreUnavailable``; all but pull and reap may be run twice.

    ``Lanes(store, pool="default")``; a pool's back ends, models and jobs share nothing with another's.
    """

    async def submit(self, job: NewJob, *, limit: int = 0, offer: bool = False) -> Submitted:
        """Puts a job into its queue. ``limit``: most waiting jobs in the pool (for a background job: most of those; of
        embeddings: most inputs); 0 = no limit. ``offer``: it goes at once to a worker that has left a standing order,
        if there is one; worth trying where engines are likely to be idle.
        """
        script = "offer" if offer and not self.store.embedded else "submit"
        return (await self._submit([(Past(job=job, age_us=0), limit)], script=script))[0]

    async def restore(self, pasts: Sequence[Past], lease_s: float) -> list[Submitted]:
        """Puts jobs that the store has lost into it once more, where it does not know them better: ``restored``, else
        ``known`` or ``homeless``. Results in the same order. One that was running is leased to whoever was at it.
        """
        return await self._submit([(past, 0) for past in pasts], lease_s)

    async def _submit(
        self, pasts: Sequence[tuple[Past, int]], lease_s: float = 0.0, script: str = "submit"
    ) -> list[Submitted]:
        commands: list[Command] = []
        places: list[int] = []
        for past, limit in pasts:
            job = past.job
            large = len(job.body) > LARGE_BODY
            if large:
                key = self.keys.job(job.id)
                commands += [("HSET", key, "body", job.body), ("EXPIRE", key, BODY_S)]
            places.append(len(commands))
            commands.append(
                self._call(
                    script,
                    job.id,
                    job.model,
                    job.lane,
                    job.user,
                    job.inbox,
                    job.offset_us,
                    job.max_wait_us,
                    job.timeout_us,
                    job.cost,
                    job.kv,
                    job.prefill,
                    int(job.long),
                    int(job.det),
                    limit,
                    b"" if large else job.body,
                    job.inputs,
                    job.owner,
                    job.share,
                    past.age_us,
                    past.floor,
                    past.said,
                    past.base,
                    past.spent,
                    past.have,
                    past.backend,
                    0 if past.waiting else micros(lease_s),
                    job.told,
                    past.tries,
                    past.started_ago_us,
                    "" if past.first_ago_us is None else past.first_ago_us,
                    job.name,
                    max(job.prompt, job.prefill),
                    int(job.splits),
                    job.near,
                    job.behind,
                    job.trace,
                )
            )
        results = await self._exchange(commands, eager=lease_s == 0)
        self.store.ring("jobs")
        return [_submitted(results[place]) for place in places]

    async def _exchange(self, commands: Sequence[Command], *, eager: bool = False) -> list[Any]:
        results = await (self.store.eager(commands) if eager else self.store.exchange(commands))
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results

    async def requeue(self, id: str, fence: int, *, snapshot: str, base: str, spent: int, inbox: str) -> Requeued:
        """Takes a job back from wherever it is, and puts it into its queue to go on from ``snapshot``. ``fence``: the
        one its gateway knows.
        """
        reply = await self._run("requeue", id, fence, snapshot, base, spent, inbox)
        self.store.ring("jobs", "bell")
        return Requeued(cast(Any, reply[0].decode()), int(reply[1]))

    async def cancel(self, id: str, why: EndKind = "cancelled", failure: End | None = None) -> CancelResult:
        """Ends a job that waits; one that runs is ended by its worker, which is told. ``failure``: the whole end, if
        more is to be said.
        """
        end = failure or End(why)
        reply = await self._run("cancel", id, end.kind, encode_end(end))
        self.store.ring("ctl", "inbox")
        return cast(CancelResult, reply.decode())

    async def signal(self, id: str, word: Literal["pause", "go"]) -> bool:
        """Tells the worker that runs a job to stop or go on reading its engine. False: nobody to hear it."""
        heard = await self._run("signal", id, word)
        self.store.ring("ctl")
        return bool(heard)

    async def look(self, workers: Iterable[str], backend: str) -> None:
        """Has these workers look at a back end at once: what it serves has changed."""
        word = ("NOMKSTREAM", "MAXLEN", 1000, "*", "k", "look", "id", backend)
        calls: list[Command] = [("XADD", self.keys.ctl(worker), *word) for worker in workers]
        if calls:
            await self._exchange(calls)
            self.store.ring("ctl")

    async def watch(self, inbox: str, ids: Sequence[str]) -> Watched:
        """Lengthens the life of an inbox and of its open jobs, whose frames come there from now on, and ends those that
        waited too long. Every 5 s and after a reconnect.
        """
        there = True
        states: list[tuple[JobState, int]] = []
        for start in range(0, max(len(ids), 1), WATCHED_AT_ONCE):
            some = ids[start : start + WATCHED_AT_ONCE]
            reply = await self._run("watch", inbox, encode_end(EXPIRED), *some, patient=True)
            there = there and reply[0] == 1
            states += [(cast(JobState, reply[i].decode()), int(reply[i + 1])) for i in range(1, len(reply), 2)]
        return Watched(there, states)

    async def create_inbox(self, name: str) -> bool:
        """Makes the stream of an inbox, ``<gateway>:<incarnation>``; a name never used before. False: it was there."""
        return bool(await self._run("create", name))

    async def reply(self, id: str) -> list[tuple[str, dict[bytes, bytes]]]:
        """All entries (id, fields) of a job's reply key, for ``fold``."""
        (entries,) = await self._exchange([("XRANGE", self.keys.reply(id), "-", "+")])
        return [(entry_id.decode(), fields) for entry_id, fields in entries]

    async def forget(self, ids: Sequence[str]) -> None:
        """Drops the answers of jobs that have ended, ahead of their lifetime: whoever they were for has all of them."""
        await self._exchange([("UNLINK", *(self.keys.reply(id) for id in ids))])

    async def peek(self, models: Sequence[str], *, backend: str = "", slots: int = 0) -> Peeked:
        """Who waits for these models (queue names). ``backend``: the one that asks, and takes ``slots`` jobs."""
        waiting, oldest, now = await self._run("peek", backend, slots, *models)
        return Peeked(waiting, int(oldest), int(now))

    async def depths(self) -> dict[Lane, Depth]:
        """How many wait in each lane, and how long the longest has."""
        reply = await self._run("depths")
        return {lane: Depth(reply[2 * i], int(reply[2 * i + 1])) for i, lane in enumerate(LANES)}

    async def place(self, id: str) -> Place:
        state, ahead, lane, arr, backend, fence = await self._run("place", id)
        return Place(cast(JobState, state.decode()), ahead, lane.decode(), int(arr), backend.decode(), int(fence))

    async def load(self, backend: str) -> Load:
        """What a back end carries over all workers."""
        (values,) = await self._exchange([("HVALS", self.keys.load(backend))])
        shares = [tuple(map(int, value.split(b",")[:3])) for value in values]
        return Load(len(shares), *(sum(share[i] for share in shares) for i in range(3)))

    async def leftovers(self) -> list[Leftover]:
        """All keys of the pool, their types and lifetimes; for tests and the doctor."""
        keys: list[bytes] = []
        cursor: Any = 0
        pattern = self.keys.base.replace("[", "\\[") + "*"
        while True:
            ((cursor, some),) = await self._exchange([("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)])
            keys += some
            if int(cursor) == 0:
                break
        facts = await self._exchange([(command, key) for key in sorted(set(keys)) for command in ("TYPE", "TTL")])
        names = sorted(set(keys))
        return [
            Leftover(key.decode(), _text(facts[2 * i]), facts[2 * i + 1])
            for i, key in enumerate(names)
            if facts[2 * i + 1] != -2
        ]


def _submitted(reply: Sequence[Any]) -> Submitted:
    status, fence, state, waiting, *more = reply
    users = more[0] if more else 0
    backend = more[1].decode() if len(more) > 1 else ""
    return Submitted(cast(Any, status.decode()), int(fence), cast(JobState, state.decode()), waiting, users, backend)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
