"""Who has to wait for how long, and whether that is too long for him to be let in."""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from buffer.job import Failure
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


@dataclass(slots=True)
class _Place:
    """A job that waits."""

    model: str
    drains: tuple[Drain, ...]
    came_at: float
    expected_s: float
    places: int


class Admission:
    """Learns from the jobs of this gateway alone: where there are several, each has a part of the queue before it, and
    sees just that part start. Instants are of ``clock``, in seconds.
    """

    def __init__(self, settings: Settings, telemetry: Telemetry, clock: Callable[[], float] | None = None) -> None:
        longest = settings.refuse_wait_seconds
        self._refuse_wait: float | Mapping[str, float] = dict(longest.items()) if isinstance(longest, dict) else longest
        self._queue_limit = settings.queue_limit
        self._telemetry = telemetry
        self._clock = clock or time.monotonic
        self._drains: OrderedDict[tuple[str, str], Drain] = OrderedDict()
        """By queue name of the model, and lane."""
        self._due_at: dict[tuple[str, str], float] = {}
        """When the last of those who were refused is to come back."""
        self._places: dict[str, _Place] = {}
        self._running: dict[str, str] = {}
        """Id of a job that has begun and is not over → its model,"""
        self._busy: Counter[str] = Counter()
        """and how many of each there are."""
        self._part = Average(weight=0.2)
        """Of all that wait anywhere, those that came in here."""

    def check(self, jobs: Sequence[tuple[NewJob, Outlook]]) -> None:
        """Raises ``Refusal`` where one of them would wait too long. Nothing of them has been submitted yet."""
        asked: dict[tuple[str, str], int] = {}
        for job, known in jobs:
            lane = job.lane
            if lane == _BACKGROUND:
                continue
            asked[job.model, lane] = asked.get((job.model, lane), 0) + 1
            drain = self._drains.get((job.model, lane))
            if drain is None:
                continue
            self._tell(drain, job.model, known)
            wait_s = self._wait_s(job.model, drain, asked[job.model, lane], known)
            longest_s = refuse_wait_s(lane, self._refuse_wait)
            if longest_s is None or wait_s <= longest_s:
                continue
            ahead = drain.waiting + asked[job.model, lane]
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
                verdict = verdict.later(self._again_s((job.model, lane), verdict.retry_after_s, gap_s))
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
        drains = [self._drain(model, lane)]
        self._tell(drains[0], model, known)
        expected_s = self._wait_s(model, drains[0], 1, known)
        if lane != _BACKGROUND:
            drains.append(self._drain(model, _ALL))
        now_at = self._clock()
        for drain in drains:
            drain.came(now_at)
        self._places[job.id] = _Place(model, tuple(drains), now_at, expected_s, known.places)

    def waits(self, waiting: int) -> None:
        """The store told of so many waiting jobs, over all gateways."""
        mine = sum(drain.waiting for (_, lane), drain in self._drains.items() if lane == _ALL)
        if waiting > 0 and mine > 0:
            self._part.add(min(1.0, mine / waiting))

    def began(self, id: str) -> None:
        """Somebody took the job."""
        place = self._places.pop(id, None)
        if place is not None:
            now_at = self._clock()
            self._running[id] = place.model
            self._busy[place.model] += 1
            room = self._busy[place.model] <= place.places
            for drain in place.drains:
                drain.went(now_at, room=room)
            self._telemetry.estimated("wait_seconds", place.expected_s, now_at - place.came_at)

    def left(self, id: str) -> None:
        """The job is over, wherever it stood."""
        model = self._running.pop(id, None)
        if model is not None:
            self._busy[model] -= 1
            if not self._busy[model]:
                del self._busy[model]
        place = self._places.pop(id, None)
        if place is not None:
            for drain in place.drains:
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
        """Of the last of ``more`` jobs that join those of the drain. Where nobody waits, there is room."""
        if not drain.waiting:
            return 0.0
        free = max(0.0, known.places * self._mine() - self._busy[model])
        return drain.wait_s(drain.waiting + more, self._clock(), known.alone_s, free)

    def _mine(self) -> float:
        """The part of what waits, and of what starts, that is this gateway's."""
        return self._part.value or 1.0

    def _tell(self, drain: Drain, model: str, known: Outlook) -> None:
        """What back ends tell; else the lane's part of what all lanes of the model are seen to start. Not of long jobs:
        an engine's memory may have room for few of them, however many others start."""
        drain.told_s = known.told_s / self._mine()
        every = self._drains.get((model, _ALL))
        if not drain.told_s and not known.alone_s and every is not None and drain.waiting:
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
