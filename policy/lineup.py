"""The waiting jobs and who of them goes next, as values. Pure.

The queues of the ``pull`` script, which the store runs for all workers at once: here they serve the study in virtual
time, and the tests that compare both. What is taken from them, ``policy.pull`` says.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from policy.credit import Need
from policy.lane import LANES
from policy.order import Turns, due_after_s, offset_s


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
    prompt: int = 0
    """Tokens of its prompt, of which ``need.prefill`` are to be read anew."""
    splits: bool = False
    """It may be read in pieces."""


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
        self,
        job_id: str,
        *,
        now_at: float,
        user: str,
        need: Need,
        prefill_s: float,
        cost: float,
        model: str = "",
        prompt: int | None = None,
    ) -> Waiting:
        """Puts a new job in its queue. ``prompt``: tokens of one that may be read in pieces."""
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
            prompt=need.prefill if prompt is None else prompt,
            splits=prompt is not None,
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

    def went(self, jobs: Iterable[Waiting]) -> None:
        """These were taken, in this order: the clocks of their queues go on."""
        for key, job in {(job.model, job.lane): job for job in jobs}.items():
            self._queues[key].turns.went(job.tag)

    def candidate(
        self,
        models: Sequence[str],
        *,
        lanes: Collection[str] = LANES,
        skipped: Collection[str] = (),
        shut: Collection[tuple[str, str]] = (),
    ) -> Waiting | None:
        """The lowest score first, and within its queue whose turn it is; once that one was looked at, by score
        alone. A background job only where nobody else waits. ``skipped``: ids; ``shut``: queues, by model and lane."""
        quiet = not any(
            queue.by_score for key, queue in self._queues.items() if key[0] in models and key[1] != "background"
        )
        queues = [
            queue
            for (model, lane), queue in self._queues.items()
            if model in models and lane in lanes and queue.by_score and (quiet or lane != "background")
            if (model, lane) not in shut
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

    def first_due(self, models: Sequence[str], skipped: Collection[str] = ()) -> Waiting | None:
        """The job whose longest wait is over first, or will be."""
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
