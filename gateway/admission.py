"""Who has to wait for how long, and whether that is too long for him to be let in."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from buffer.job import LANES, Failure
from buffer.records import NewJob
from buffer.settings import Settings
from buffer.telemetry import Telemetry
from gateway.refusal import Refusal
from policy.admission import Refuse, admit, refuse_wait_s
from policy.drain import Drain
from policy.estimate import Average
from policy.outlook import Outlook

MOST_QUEUES = 512
"""Of a model and a lane. Models come and go with their back ends; of an older one it is learned anew."""
MOST_AGAIN_S = 120
_ALL = ""
"""In place of a lane: of all but the background."""
_BACKGROUND = "background"


class _Job(Struct):
    """One that came in and is not over."""

    model: str
    counts: int
    """0: it is of the background."""
    drains: tuple[Drain, ...]
    came_at: float
    expected_s: float
    places: int
    begun: bool = False


class Admission:
    """Learns from the jobs of this gateway alone: where there are several, each has a part of the queue before it, and
    sees just that part start. Instants are of ``clock``, in seconds.
    """

    def __init__(self, settings: Settings, telemetry: Telemetry, clock: Callable[[], float] | None = None) -> None:
        longest = settings.refuse_wait_seconds
        self._refuse_wait: float | Mapping[str, float] = dict(longest.items()) if isinstance(longest, dict) else longest
        self._longest_s = {lane: refuse_wait_s(lane, self._refuse_wait) for lane in LANES}
        self._queue_limit = settings.queue_limit
        self._telemetry = telemetry
        self._clock = clock or time.monotonic
        self._drains: OrderedDict[tuple[str, str], Drain] = OrderedDict()
        """By queue name of the model, and lane."""
        self._due_at: dict[tuple[str, str], float] = {}
        """When the last of those who were refused is to come back."""
        self._jobs: dict[str, _Job] = {}
        self.waiting = 0
        """How many of them wait, but for the background: where nobody does, nothing has to be checked;"""
        self._busy: dict[str, int] = {}
        """and how many of each model have begun."""
        self._part = Average(weight=0.2)
        """Of all that wait anywhere, those that came in here."""

    def check(self, jobs: Sequence[tuple[NewJob, Outlook]]) -> None:
        """Raises ``Refusal`` where one of them would wait too long. Nothing of them has been submitted yet."""
        asked: dict[tuple[str, str], int] = {}
        for job, known in jobs:
            lane = job.lane
            if lane == _BACKGROUND:
                continue
            queue = job.model, lane
            more = asked[queue] = asked.get(queue, 0) + 1
            drain, longest_s = self._drains.get(queue), self._longest_s[lane]
            if drain is None or longest_s is None or not drain.waiting:
                continue
            self._tell(drain, job.model, known)
            wait_s = self._wait_s(job.model, drain, more, known)
            if wait_s <= longest_s:
                continue
            ahead = drain.waiting + more
            now_at = self._clock()
            verdict = admit(
                lane,
                waiting=0,  # the store counts
                queue_limit=self._queue_limit,
                predicted_wait_s=wait_s,
                refuse_wait=self._refuse_wait,
                drain_rate=drain.per_s(now_at, known.alone_s, ahead),
            )
            if isinstance(verdict, Refuse):
                gap_s = drain.usual_s(known.alone_s, ahead)
                drain.refused(now_at)
                verdict = verdict.later(self._again_s(queue, verdict.retry_after_s, gap_s))
                again_s = verdict.retry_after_s
                failure = Failure(verdict.reason, verdict.status, "wait_too_long", retry_after_s=again_s)
                raise Refusal(failure, "refused")

    def _again_s(self, queue: tuple[str, str], after_s: int, gap_s: float) -> int:
        """When he is to come back: each of those who were refused a little later than the one before, or all of them
        would come back for the same place."""
        now_at = self._clock()
        due_at = max(now_at + after_s, self._due_at.get(queue, 0.0) + gap_s)
        again_s = max(1, min(MOST_AGAIN_S, math.ceil(due_at - now_at)))
        self._due_at[queue] = min(due_at, now_at + MOST_AGAIN_S)
        return again_s

    def came(self, job: NewJob, known: Outlook) -> None:
        """It is on its way to the queue. Once it has begun or will not, ``began`` or ``left`` has to be called."""
        model, lane = job.model, job.lane
        now_at = self._clock()
        drain = self._drain(model, lane)
        self._tell(drain, model, known)
        expected_s = self._wait_s(model, drain, 1, known) if drain.waiting else 0.0
        drain.came(now_at)
        drains: tuple[Drain, ...] = (drain,)
        counts = 0
        if lane != _BACKGROUND:
            every = self._drain(model, _ALL)
            every.came(now_at)
            drains = drain, every
            counts = 1
            self.waiting += 1
        self._jobs[job.id] = _Job(model, counts, drains, now_at, expected_s, known.places)

    def waits(self, waiting: int) -> None:
        """The store told of so many waiting jobs, over all gateways."""
        if waiting > 0 and self.waiting > 0:
            self._part.add(min(1.0, self.waiting / waiting))

    def began(self, id: str) -> None:
        """Somebody took the job."""
        job = self._jobs.get(id)
        if job is None or job.begun:
            return
        now_at = self._clock()
        job.begun = True
        self.waiting -= job.counts
        busy = self._busy[job.model] = self._busy.get(job.model, 0) + 1
        room = busy <= job.places
        for drain in job.drains:
            drain.went(now_at, room=room)
        self._telemetry.estimated("wait_seconds", job.expected_s, now_at - job.came_at)

    def left(self, id: str) -> None:
        """The job is over, wherever it stood."""
        job = self._jobs.pop(id, None)
        if job is None:
            return
        if job.begun:
            busy = self._busy[job.model] = self._busy[job.model] - 1
            if not busy:
                del self._busy[job.model]
        else:
            self.waiting -= job.counts
            for drain in job.drains:
                drain.left()

    def starts_in_s(self, model: str, ahead: int) -> float | None:
        """When a job will probably start that has ``ahead`` before it, from whichever gateways; None: nobody knows.

        ``model``: its queue name.
        """
        drain = self._drains.get((model, _ALL))
        if drain is None or not drain.usual_s():
            return None
        return drain.wait_s((ahead + 1) * self._mine(), self._clock())

    def _wait_s(self, model: str, drain: Drain, more: int, known: Outlook) -> float:
        """Of the last of ``more`` jobs that join those who wait. Where nobody does, there is room."""
        free = max(0.0, known.places * self._mine() - self._busy.get(model, 0))
        return drain.wait_s(drain.waiting + more, self._clock(), known.alone_s, free)

    def _mine(self) -> float:
        """The part of what waits, and of what starts, that is this gateway's."""
        return self._part.value or 1.0

    def _tell(self, drain: Drain, model: str, known: Outlook) -> None:
        """What back ends tell; else the lane's part of what all lanes of the model are seen to start. Not of long jobs:
        an engine's memory may have room for few of them, however many others start."""
        drain.told_s = known.told_s / self._mine() if known.told_s else 0.0
        if drain.waiting and not drain.told_s and not known.alone_s:
            every = self._drains.get((model, _ALL))
            if every is not None:
                drain.told_s = every.usual_s(ahead=every.waiting) * every.waiting / drain.waiting

    def _drain(self, model: str, lane: str) -> Drain:
        drain = self._drains.get((model, lane))
        if drain is not None:
            self._drains.move_to_end((model, lane))
            return drain
        drain = self._drains[model, lane] = Drain()
        if len(self._drains) > MOST_QUEUES:
            queue, _ = self._drains.popitem(last=False)
            self._due_at.pop(queue, None)
        return drain
