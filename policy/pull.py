"""Who goes next to a back end that has room, and how much of whose prompt. Pure.

The same rule as the ``pull`` script's, which the store runs for all workers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from policy.credit import Credit, Need, fits, for_waiting, may_go_first, may_pass
from policy.flight import Carried, Flight
from policy.lane import SHORT_LANES
from policy.lineup import Lineup, Waiting
from policy.segment import (
    CARE_AHEAD,
    CARE_PAUSE,
    HEED_S,
    careful_piece,
    careful_segment,
    next_piece,
    pause_after,
    prefill_room,
)

LOOK_AT: Final = 16
"""Jobs that a pull looks at and leaves before it gives up."""
LOOK_AT_LANE: Final = 4
"""Of one queue, and of those that have waited longest."""
NOT_NOW: Final = 1 << 40
"""Prompt tokens that never fit beside others."""


class Piece(NamedTuple):
    """What goes of a job now: its prompt up to this token; 0: all of it, answer included."""

    id: str
    upto: int


@dataclass(slots=True)
class Pulled:
    jobs: list[tuple[Waiting, int]] = field(default_factory=list)
    """Jobs that go now, in order, and up to which token; 0: all of it, answer included."""
    pieces: list[Piece] = field(default_factory=list)
    """Of jobs that were half read."""
    look_at: float | None = None
    """When something may go for which it is only too early; None: not before something happens."""


def pull(
    lineup: Lineup,
    *,
    want: int,
    credit: Credit,
    flight: Flight,
    now_at: float,
    models: Sequence[str] = ("",),
    heed: float = HEED_S,
) -> Pulled:
    """At most ``want`` jobs that may go now, in order, and what may be read next of those half read. They leave the
    queue, and ``flight`` has them.

    The lowest score first; of the short lanes before all others, while these hold less than half of the engine. A job
    that has waited for the longest wait, and fits, goes before whoever came later than that. If it does not fit, such
    as leave its room alone pass it (``may_pass``).
    """
    return _Pull(lineup, want=want, credit=credit, flight=flight, now_at=now_at, models=models, heed=heed).run()


class _Pull:
    def __init__(
        self,
        lineup: Lineup,
        *,
        want: int,
        credit: Credit,
        flight: Flight,
        now_at: float,
        models: Sequence[str],
        heed: float,
    ) -> None:
        self._lineup, self._want, self._flight = lineup, want, flight
        self._now, self._models, self._heed = now_at, models, heed
        oldest = lineup.first_due(models)
        if oldest is not None and oldest.due_at is not None:
            credit = for_waiting(credit, now_at - oldest.arr_at, oldest.due_at - oldest.arr_at)
        self._static = self._credit = credit
        self._free = 1.0
        self._result = Pulled()
        self._skipped: set[str] = set()
        self._looks: dict[tuple[str, str], int] = {}
        self._due_looks = 0
        self._by_due = False
        self._bar_at, self._barred = float("inf"), Need("")
        self._read_later = False
        """Something would go if less were being read."""
        self._careful_later = False
        """Something would that has to be read with care."""

    def run(self) -> Pulled:
        while True:
            self._measure()
            job, jumps = self._next()
            half = min(
                (one for one in self._flight.half_read() if not one.under_way and one.id not in self._skipped),
                key=lambda one: (one.score, one.id),
                default=None,
            )
            if half is not None and (job is None or (not jumps and half.score <= job.score)):
                if not self._go_on(half):
                    self._skipped.add(half.id)
            elif job is not None:
                self._try(job)
            else:
                break
        for half in sorted(self._flight.half_read(), key=lambda one: (one.score, one.id)):
            if half.under_way:
                self._measure()
                self._go_on(half)
        if self._read_later and self._flight.next_piece_at > self._now:
            self._result.look_at = self._flight.next_piece_at
        if self._careful_later:
            self._result.look_at = min(self._flight.next_careful_at, self._result.look_at or float("inf"))
        self._lineup.went(job for job, _ in self._result.jobs)
        return self._result

    def _measure(self) -> None:
        """How much of the memory is free now, and how much may be read at a time."""
        credit, flight = self._static, self._flight
        if credit.segment:
            self._free = 1 - flight.load.kv / credit.kv if credit.kv else 1.0
            room = 1 if self._now < flight.next_piece_at else prefill_room(credit.segment, self._free)
            self._credit = credit._replace(prefill=room)

    def _next(self) -> tuple[Waiting | None, bool]:
        """The next to look at, and whether it goes before all others whatever the scores say."""
        flight, models, skipped = self._flight, self._models, self._skipped
        looked = sum(self._looks.values())
        if len(self._result.jobs) >= self._want or flight.load.jobs >= self._credit.slots or looked >= LOOK_AT:
            return None, False
        shut = {queue for queue, count in self._looks.items() if count >= LOOK_AT_LANE}
        job = self._lineup.candidate(models, skipped=skipped, shut=shut)
        if job is None:
            return None, False
        self._by_due = False
        due = self._lineup.first_due(models, skipped) if self._due_looks < LOOK_AT_LANE else None
        short = self._lineup.candidate(models, lanes=SHORT_LANES, skipped=skipped, shut=shut)
        jumps = short is not None and may_go_first(self._need(short), flight.short(), self._credit)
        if short is not None and jumps:
            job = short
        if due is not None and due.due_at is not None and due.due_at < job.arr_at:
            self._by_due = True
            return due, False
        return job, jumps

    def _try(self, job: Waiting) -> None:
        """Sends a job off, or says who may pass it."""
        need, load = self._need(job), self._flight.load
        free = job.arr_at <= self._bar_at or may_pass(
            need, self._barred, self._flight.younger(self._bar_at), self._credit
        )
        if free and fits(need, load, self._credit) and not self._waits_behind(job.lane, need.prefill):
            self._send(job)
            return
        self._skipped.add(job.id)
        self._due_looks += self._by_due
        self._looks[job.model, job.lane] = self._looks.get((job.model, job.lane), 0) + 1
        if fits(need._replace(prefill=0), load, self._credit):
            self._read_later = True  # It waits for a prompt under way, and is asked first when that is read.
        elif job.due_at is not None and job.due_at < self._bar_at:
            self._bar_at, self._barred = job.due_at, need

    def _careful(self, lane: str) -> bool:
        """Whether it is read so that people, of whom some are about, hardly notice."""
        about = self._now < self._flight.heeds_until or self._flight.has_people
        return lane == "background" and self._credit.segment > 0 and about

    def _waits_behind(self, lane: str, tokens: int) -> bool:
        """Whether it has to be read with care, and therefore not now."""
        if not self._careful(lane):
            return False
        flight = self._flight
        if flight.reads_people:
            return True
        if self._now < flight.next_careful_at:
            self._careful_later = True
            return True
        under_way = flight.load.prefill
        return under_way > 0 and under_way + tokens > CARE_AHEAD * careful_segment(self._credit.segment)

    def _upto(self, lane: str, prompt: int, read: int, *, splits: bool) -> int:
        """Up to which token the next piece goes; ``prompt``: all that is left."""
        if not splits or lane == "fast":
            return prompt
        segment = self._credit.segment
        if self._careful(lane):
            upto = careful_piece(prompt, read, segment)
        else:
            upto = next_piece(prompt, read, segment, self._free)
        return prompt if upto is None else upto

    def _need(self, job: Waiting) -> Need:
        """What a job would take if it went now."""
        read = job.prompt - job.need.prefill
        tokens = self._upto(job.lane, job.prompt, read, splits=job.splits) - read
        if job.lane != "fast" and not self._careful(job.lane) and self._flight.reads_before(job.lane):
            # One prompt of a lane is read after the other: side by side both would be late.
            tokens = NOT_NOW
        return job.need._replace(prefill=tokens)

    def _send(self, job: Waiting) -> None:
        read = job.prompt - job.need.prefill
        upto = self._upto(job.lane, job.prompt, read, splits=job.splits)
        self._lineup.remove(job.id)
        need = job.need
        self._flight.take(
            Carried(job.id, job.lane, job.arr_at, job.score, need.kv, need.long, job.prompt, upto, read),
        )
        self._result.jobs.append((job, 0 if upto == job.prompt else upto))
        if self._careful(job.lane):
            self._flight.next_careful_at = self._now + CARE_PAUSE * self._credit.pause
        elif self._credit.segment and job.lane != "fast":
            pause = pause_after(upto - read, self._credit.segment, self._credit.pause)
            self._flight.next_piece_at = max(self._flight.next_piece_at, self._now + pause)
        if job.lane != "background":
            self._flight.heeds_until = self._now + self._heed

    def _go_on(self, half: Carried) -> bool:
        """Sends the next piece of a prompt, if it may go now."""
        upto = self._upto(half.lane, half.prompt, half.upto, splits=True)
        load, tokens = self._flight.load, upto - half.upto
        room, careful = self._credit.prefill, self._careful(half.lane)
        fit = not room or load.prefill == 0 or load.prefill + tokens <= room
        if careful:
            fit = fit and not self._waits_behind(half.lane, tokens)
        elif not half.under_way and self._flight.reads_before(half.lane):
            fit = False
        if fit:
            self._flight.send(half.id, upto)
            if careful:
                self._flight.next_careful_at = self._now + CARE_PAUSE * self._credit.pause
            else:
                self._flight.next_piece_at = self._now + self._credit.pause
            self._result.pieces.append(Piece(half.id, 0 if upto == half.prompt else upto))
        self._read_later = True
        return fit
