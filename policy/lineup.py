"""The waiting jobs and who of them goes next, as values. Pure.

The same rule as the ``pull`` script's, which the store runs for all workers at once: here it serves the study in
virtual time, and the tests that compare both.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, Protocol

from policy.credit import Credit, Load, Need, fits, may_go_first, may_pass
from policy.lane import SHORT_LANES
from policy.order import Turns, due_after_s, offset_s

LOOK_AT: Final = 16
"""Jobs that a pull looks at and leaves before it gives up."""
LOOK_AT_LANE: Final = 4
"""Of one lane, where others may pass those that do not fit."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job in the queue. Instants and costs are in whatever unit the caller uses, seconds and tokens by habit."""

    id: str
    model: str
    lane: str
    user: str
    arr_at: float
    score: float
    due_at: float | None
    tag: float
    cost: float
    need: Need
    serial: int
    """Number of its coming, so that equal scores keep the order of arrival."""


@dataclass(slots=True)
class _Queue:
    by_score: list[tuple[float, int, Waiting]] = field(default_factory=list)
    by_turn: list[tuple[float, float, int, Waiting]] = field(default_factory=list)
    turns: Turns = field(default_factory=Turns)

    def add(self, job: Waiting) -> None:
        insort(self.by_score, (job.score, job.serial, job), key=lambda entry: entry[:2])
        insort(self.by_turn, (job.tag, job.score, job.serial, job), key=lambda entry: entry[:3])

    def remove(self, job: Waiting) -> None:
        del self.by_score[bisect_left(self.by_score, (job.score, job.serial), key=lambda entry: entry[:2])]
        del self.by_turn[bisect_left(self.by_turn, (job.tag, job.score, job.serial), key=lambda entry: entry[:3])]


class Flight(Protocol):
    """What the jobs in flight carry: all, or only those of some lanes, or those that came after an instant."""

    def __call__(self, lanes: Collection[str] = ..., *, after: float = ...) -> Load: ...


class Lineup:
    """All queues of a pool."""

    def __init__(self, max_wait_s: float) -> None:
        self._max_wait_s = max_wait_s
        self._queues: dict[tuple[str, str], _Queue] = {}
        self._due: dict[str, list[tuple[float, int, Waiting]]] = {}
        self._jobs: dict[str, Waiting] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._jobs.values())

    def submit(
        self, job_id: str, *, now_at: float, user: str, need: Need, prefill_s: float, cost: float, model: str = ""
    ) -> Waiting:
        """Puts a new job in its queue."""
        self._serial += 1
        turns = self._queue(model, need.lane).turns
        due_s = due_after_s(need.lane, self._max_wait_s)
        job = Waiting(
            id=job_id,
            model=model,
            lane=need.lane,
            user=user,
            arr_at=now_at,
            score=now_at + offset_s(need.lane, prefill_s, self._max_wait_s),
            due_at=None if due_s is None else now_at + due_s,
            tag=turns.tag(user, cost),
            cost=cost,
            need=need,
            serial=self._serial,
        )
        self.put_back(job)
        return job

    def put_back(self, job: Waiting) -> None:
        """A job that was taken returns to its old place."""
        self._jobs[job.id] = job
        self._queue(job.model, job.lane).add(job)
        if job.due_at is not None:
            insort(self._due.setdefault(job.model, []), (job.due_at, job.serial, job), key=lambda entry: entry[:2])

    def remove(self, job_id: str) -> Waiting | None:
        """Takes a job out, wherever it stands; None if it isn't there."""
        job = self._jobs.pop(job_id, None)
        if job is not None:
            self._queue(job.model, job.lane).remove(job)
            if job.due_at is not None:
                due = self._due[job.model]
                del due[bisect_left(due, (job.due_at, job.serial), key=lambda entry: entry[:2])]
        return job

    def correct(self, job: Waiting, cost_more: float) -> None:
        """An answer took ``cost_more`` than its job was put in with."""
        self._queue(job.model, job.lane).turns.correct(job.user, cost_more, job.tag + job.cost + cost_more)

    def pull(
        self,
        *,
        want: int,
        credit: Credit,
        load: Load,
        models: Sequence[str] = ("",),
        need_of: Callable[[Waiting], Need] = attrgetter("need"),
        flight: Flight | None = None,
    ) -> list[Waiting]:
        """At most ``want`` jobs that may go now, in order; they leave the queue and are added to ``load``.

        ``need_of``: what a job would take if it went now. With ``flight``, short lanes go first while they hold less
        than half of the engine, and a job that does not fit is passed by such as leave its room alone, however late
        they came (``may_pass``). Without it the scores alone decide, and nobody who came more than ``max_wait_s`` later
        passes; so it is in the script.
        """
        taken: list[Waiting] = []
        skipped: set[str] = set()
        looks: dict[tuple[str, str], int] = {}
        bar_at, barred = float("inf"), Need("")
        while len(taken) < want and load.jobs < credit.slots and len(skipped) < LOOK_AT:
            shut = {key for key, count in looks.items() if count >= LOOK_AT_LANE} if flight else set()
            job = self._candidate(models, skipped, shut)
            if job is None:
                break
            due = None if flight and barred.lane else self._first_due(models, skipped)
            short = self._short(models, skipped, shut) if flight else None
            if flight and short and may_go_first(need_of(short), flight(SHORT_LANES), credit):
                job = short
                if due is not None and due.due_at is not None and due.due_at < min(job.arr_at, bar_at):
                    bar_at, barred = due.due_at, need_of(due)
            elif due is not None and due.due_at is not None and job.arr_at > due.due_at:
                job = due
            need = need_of(job)
            free = job.arr_at <= bar_at or (flight and may_pass(need, barred, flight(after=bar_at), credit))
            if free and fits(need, load, credit):
                self.remove(job.id)
                load.add(need)
                taken.append(job)
                continue
            skipped.add(job.id)
            looks[job.model, job.lane] = looks.get((job.model, job.lane), 0) + 1
            if flight and fits(need._replace(prefill=0), load, credit):
                continue  # It only waits for a prompt under way to be read, and is asked first when that is done.
            if job.due_at is not None and job.due_at < bar_at:
                bar_at, barred = job.due_at, need
        for key, job in {(job.model, job.lane): job for job in taken}.items():
            self._queues[key].turns.went(job.tag)
        return taken

    def oldest_at(self, models: Sequence[str] = ("",)) -> float | None:
        """When the job came that is due first; None: no such job waits."""
        job = self._first_due(models, set())
        return None if job is None else job.arr_at

    def _short(self, models: Sequence[str], skipped: set[str], shut: Collection[tuple[str, str]]) -> Waiting | None:
        """The next of the short lanes, by score."""
        heads = [
            next((entry for entry in self._queues[key].by_score if entry[2].id not in skipped), None)
            for key in ((model, lane) for model in models for lane in SHORT_LANES)
            if key in self._queues and key not in shut
        ]
        return min((entry for entry in heads if entry), key=lambda entry: entry[:2], default=(0, 0, None))[2]

    def _candidate(self, models: Sequence[str], skipped: set[str], shut: Collection[tuple[str, str]]) -> Waiting | None:
        """The lowest score first, and within its queue whose turn it is; once that one was looked at, by score
        alone."""
        quiet = not any(
            queue.by_score for key, queue in self._queues.items() if key[0] in models and key[1] != "background"
        )
        queues = [
            queue
            for (model, lane), queue in self._queues.items()
            if model in models and queue.by_score and (quiet or lane != "background") and (model, lane) not in shut
        ]
        if not queues:
            return None
        turn = min(queues, key=lambda queue: queue.by_score[0][:2]).by_turn[0][3]
        if turn.id not in skipped:
            return turn
        heads = (next((entry for entry in queue.by_score if entry[2].id not in skipped), None) for queue in queues)
        return min((entry for entry in heads if entry is not None), key=lambda entry: entry[:2], default=(0, 0, None))[
            2
        ]

    def _first_due(self, models: Sequence[str], skipped: set[str]) -> Waiting | None:
        heads = (
            next((entry for entry in self._due.get(model, ()) if entry[2].id not in skipped), None) for model in models
        )
        there = [entry for entry in heads if entry is not None]
        return min(there, key=lambda entry: entry[:2])[2] if there else None

    def _queue(self, model: str, lane: str) -> _Queue:
        queue = self._queues.get((model, lane))
        if queue is None:
            queue = self._queues[model, lane] = _Queue()
        return queue
