"""What the dashboard and ``doublebuffer top`` show, made of what the store knows. Pure; plain values, for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from buffer.overview import Overview
from buffer.recent import LATE_SLOTS, SLOT_S, SLOTS, Counted, Slots, last_slot, of_people, quantile, total
from buffer.verdict import Minute, Verdict, judge, people_waiting

MINUTE = 60 // SLOT_S
LANE_SLOTS = 300 // SLOT_S
"""Slots over which a lane's figures are taken."""
SMOOTH = 3
"""Slots that a point of a plot is taken over: one alone holds too little."""
_PLOTS = ("first_p50_s", "first_p95_s", "wait_p50_s", "wait_p95_s", "tokens_per_s", "batch", "spared")
_FAILED = ("backend_error", "expired")


@dataclass(frozen=True, slots=True)
class Figures:
    """Of the last minutes, as of the end of a slot."""

    last: int
    """That slot."""
    minute: Minute
    lanes: Mapping[str, dict[str, Any]]
    """Lane → its times."""
    rates: Mapping[str, float]
    """Back end → tokens per second."""
    batches: Mapping[str, int]
    cache: dict[str, Any] | None
    """What the answer cache did; None: it was asked for nothing in all the time that is shown."""
    points: Mapping[int, tuple[float | None, ...]]
    """Slot → the points of the plots, as ``_PLOTS`` names them."""

    def history(self) -> dict[str, Any]:
        rows = [self.points[slot] for slot in sorted(self.points)]
        columns = {name: [row[i] for row in rows] for i, name in enumerate(_PLOTS)}
        return {"end": (self.last + 1) * SLOT_S, "slot_s": SLOT_S} | columns


def figures(slots: Slots, at: float, before: Figures | None = None) -> Figures:
    """``at``: seconds since 1970. ``before``: earlier ones, of which is kept what does not change any more."""
    last = last_slot(at)
    if before is not None and before.last == last:
        return before
    recent, latest = total(slots, last, LANE_SLOTS), total(slots, last, SMOOTH)
    known = (
        {}
        if before is None
        else {slot: one for slot, one in before.points.items() if slot < last - LATE_SLOTS - SMOOTH}
    )
    return Figures(
        last,
        _minute(total(slots, last, MINUTE)),
        {lane: _times("first", found) for lane, found in recent.first.items()},
        {backend: _rate(count, SMOOTH) for backend, count in latest.tokens.items()},
        {str(size): count for size, count in sorted(recent.batch.items())},
        _cache(recent) if total(slots, last, SLOTS).cache else None,
        {
            slot: known.get(slot) or _point(total(slots, slot, SMOOTH))
            for slot in range(last - SLOTS + 1 + SMOOTH, last + 1)
        },
    )


def glance(seen: Overview, known: Figures) -> dict[str, Any]:
    """For everybody who may look. What admins see beside it: ``for_admins``."""
    return {
        "at": round(seen.at, 3),
        "store": None,
        "verdict": msgspec.to_builtins(judge(seen, known.minute)),
        "simulated": any(engine.simulated for engine in seen.engines),
        "waiting": people_waiting(seen)[0],
        "in_background": sum(lane.waiting for lane in seen.lanes if lane.name == "background"),
        "running": seen.running,
        "lanes": [
            msgspec.to_builtins(lane) | known.lanes.get(lane.name, _times("first", Counter())) for lane in seen.lanes
        ],
        "queues": msgspec.to_builtins(seen.queues),
        "engines": [
            msgspec.to_builtins(engine) | {"tokens_per_s": known.rates.get(engine.name, 0.0)} for engine in seen.engines
        ],
        "workers": msgspec.to_builtins(seen.workers),
        "dead": seen.dead,
        "minute": msgspec.to_builtins(known.minute),
        "batches": known.batches,
        "cache": known.cache,
        "history": known.history(),
    }


def for_admins(seen: Overview) -> dict[str, Any]:
    return {"letters": msgspec.to_builtins(seen.letters), "under_way": msgspec.to_builtins(seen.under_way)}


def away(reason: str, at: float, before: dict[str, Any] | None) -> dict[str, Any]:
    """While the store does not answer: what was seen before, if anything was."""
    verdict = Verdict(
        level="broken",
        says=reason,
        why=["What is new is refused until it answers again; what is under way waits and then goes on."],
    )
    known = before or glance(Overview(at=at, lanes=[]), figures({}, at))
    return known | {"store": {"reason": reason, "seen": before is not None}, "verdict": msgspec.to_builtins(verdict)}


def _point(counted: Counted) -> tuple[float | None, ...]:
    first, wait = of_people(counted.first), of_people(counted.wait)
    times = (_round(quantile(found, part)) for found in (first, wait) for part in (0.5, 0.95))
    return (*times, _rate(counted.said, SMOOTH), _mean(counted.batch), _round(counted.spared))


def _minute(counted: Counted) -> Minute:
    ended = counted.ended
    return Minute(
        **_times("first", of_people(counted.first)),
        **_times("wait", of_people(counted.wait)),
        tokens_per_s=_rate(counted.said, MINUTE),
        ended=ended.total(),
        failed=sum(ended[name] for name in _FAILED),
        refused=ended["refused"],
        cancelled=ended["cancelled"],
        mean_batch=_mean(counted.batch),
    )


def _cache(counted: Counted) -> dict[str, Any]:
    found = counted.cache
    return {
        "spared": _round(counted.spared),
        "asked": found.total() - found["bypass"],
    }


def _times(name: str, found: Counter[int]) -> dict[str, Any]:
    return {f"{name}_p50_s": _round(quantile(found, 0.5)), f"{name}_p95_s": _round(quantile(found, 0.95))}


def _rate(tokens: int, slots: int) -> float:
    return round(max(0, tokens) / (slots * SLOT_S), 1)


def _mean(sizes: Counter[int]) -> float | None:
    count = sizes.total()
    return round(sum(size * times for size, times in sizes.items()) / count, 2) if count else None


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
