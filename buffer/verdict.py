"""Is it healthy, who waits, and why is it slow: sentences made of what was seen. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from buffer.overview import EngineView, Overview

Level = Literal["ok", "strained", "broken"]

LONG_WAIT_S = 5.0
"""A person who waits so long for a first word begins to wonder."""
FULL = 0.9
MUCH_READING = 4096
"""Prompt tokens that an engine has to read, from which on they are worth a sentence."""
MANY_FAIL = 0.05
LONGEST_REASON = 160
NAMED = 3
"""So many back ends are named, the others counted."""


class Minute(Struct, kw_only=True):
    """Figures of the last minute, over all gateways and workers; times are of people's lanes."""

    first_p50_s: float | None = None
    first_p95_s: float | None = None
    wait_p50_s: float | None = None
    wait_p95_s: float | None = None
    tokens_per_s: float = 0.0
    ended: int = 0
    failed: int = 0
    refused: int = 0
    cancelled: int = 0
    mean_batch: float | None = None


class Verdict(Struct, kw_only=True):
    level: Level
    says: str
    """One line."""
    why: list[str]
    """What is behind it, the most important first."""


def judge(seen: Overview, minute: Minute) -> Verdict:
    down = [engine for engine in seen.engines if engine.state == "down"]
    troubled = [engine for engine in seen.engines if engine.state in ("open", "trial")]
    why = [*_down(down), *_breakers(troubled), *_starting(seen.engines)]
    broken = _broken(seen, down)
    waiting, oldest_s = people_waiting(seen)
    if waiting or oldest_s > 1:
        why += _crowd(seen, waiting)
    why += _minute(minute)
    if broken:
        return Verdict(level="broken", says=broken, why=why)
    if down:
        works = len(seen.engines) - len(down)
        says = f"{works} of {len(seen.engines)} back ends can be reached. {_waits(seen, waiting, oldest_s)}"
        return Verdict(level="strained", says=says, why=why)
    if troubled:
        says = f"Jobs are kept from {_names(troubled)}. {_waits(seen, waiting, oldest_s)}"
        return Verdict(level="strained", says=says, why=why)
    if oldest_s >= LONG_WAIT_S:
        return Verdict(level="strained", says=f"Busy. {_waits(seen, waiting, oldest_s)}", why=why)
    if minute.failed > MANY_FAIL * max(minute.ended, 10):
        return Verdict(level="strained", says=f"Requests fail. {_waits(seen, waiting, oldest_s)}", why=why)
    return Verdict(level="ok", says=f"All is well. {_waits(seen, waiting, oldest_s)}", why=why)


def people_waiting(seen: Overview) -> tuple[int, float]:
    """How many wait in the lanes of people, and for how many seconds the longest has."""
    lanes = [lane for lane in seen.lanes if lane.name != "background"]
    return sum(lane.waiting for lane in lanes), max((lane.oldest_s for lane in lanes), default=0.0)


def _broken(seen: Overview, down: Sequence[EngineView]) -> str:
    if not seen.workers:
        return "No worker is running, so nothing is answered."
    if not seen.engines:
        return "No back end is known yet, so nothing can be answered."
    if len(down) == len(seen.engines):
        return "No back end can be reached." if len(down) > 1 else f"The back end {down[0].name} cannot be reached."
    if all(worker.draining for worker in seen.workers):
        return "All workers are stopping, so nothing new begins."
    return ""


def _waits(seen: Overview, waiting: int, oldest_s: float) -> str:
    under_way = f"{seen.running} under way, " if seen.running else ""
    if not waiting:
        return "One is under way, nobody waits." if seen.running == 1 else f"{under_way}nobody waits.".capitalize()
    verb = "waits" if waiting == 1 else "wait"
    longest = f", the longest for {duration(oldest_s)}" if waiting > 1 else f" for {duration(oldest_s)}"
    return f"{under_way}{waiting} {verb}{longest if oldest_s >= 0.1 else ''}."


def _down(down: Sequence[EngineView]) -> list[str]:
    told = [_of(engine) for engine in down[:NAMED]]
    return [*told, f"{len(down) - NAMED} more back ends are down."] if len(down) > NAMED else told


def _breakers(troubled: Sequence[EngineView]) -> list[str]:
    return [
        f"{engine.name}: one job tries it, after several failed there."
        if engine.state == "trial"
        else f"{engine.name}: several jobs failed there in a row, so none is sent for some seconds."
        for engine in troubled[:NAMED]
    ]


def _starting(engines: Sequence[EngineView]) -> list[str]:
    starting = [engine for engine in engines if engine.state == "starting"]
    return [f"{_names(starting)} {'is' if len(starting) == 1 else 'are'} being started."] if starting else []


def _crowd(seen: Overview, waiting: int) -> list[str]:
    able = [engine for engine in seen.engines if engine.state == "up" and engine.limit]
    told = _queue(seen, waiting)
    full = [engine for engine in able if engine.jobs >= engine.limit]
    claimed = [engine for engine in able if engine.kv_tokens and engine.kv >= FULL * engine.kv_tokens]
    if waiting and able and len(full) == len(able):
        told.append(f"All {sum(engine.limit for engine in able)} places are taken.")
    elif waiting and full:
        told.append(f"All places are taken at {_names(full)}.")
    if waiting and claimed:
        told.append(f"The memory for prompts and answers is claimed at {_names(claimed)}.")
    reading = [engine for engine in able if engine.reading >= MUCH_READING]
    if reading:
        tokens = sum(engine.reading for engine in reading)
        told.append(f"Long prompts are being read: {tokens:,} tokens at {_names(reading)}.")
    return told


def _queue(seen: Overview, waiting: int) -> list[str]:
    """For which model they wait, where that tells more than that they do."""
    if not seen.queues or len(seen.engines) < 2:
        return []
    longest = seen.queues[0]
    if 2 * longest.waiting < waiting or len(longest.engines) == len(seen.engines):
        return []
    all_of_them = "They wait" if waiting > 1 else "It waits"
    who = all_of_them if longest.waiting >= waiting else f"{longest.waiting} of them wait"
    by = " and ".join(longest.engines) if 0 < len(longest.engines) <= NAMED else f"{len(longest.engines)} back ends"
    return [f"{who} for {longest.model}, which is served by {by}."]


def _minute(minute: Minute) -> list[str]:
    told = []
    if minute.failed:
        told.append(f"{minute.failed} of {minute.ended} requests failed in the last minute.")
    if minute.refused:
        told.append(f"{minute.refused} requests were refused in the last minute.")
    first_s, wait_s = minute.first_p50_s, minute.wait_p50_s
    if first_s is not None and wait_s is not None and first_s >= 1:
        part = (
            f"{duration(min(first_s, wait_s))} of it waiting"
            if wait_s >= 0.1 * first_s
            else "next to none of it waiting"
        )
        told.append(f"In the last minute the median first word took {duration(first_s)}, {part}.")
    return told


def _names(engines: Sequence[EngineView]) -> str:
    names = [engine.name for engine in engines[:NAMED]]
    if len(engines) > NAMED:
        return f"{', '.join(names)} and {len(engines) - NAMED} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _of(engine: EngineView) -> str:
    """Why a back end is down; by its name where the reason has none."""
    reason = (engine.error or f"{engine.name} was not reached").rstrip(".")
    reason = reason if len(reason) <= LONGEST_REASON else f"{reason[:LONGEST_REASON]}…"
    return f"{reason}." if engine.name in reason else f"{engine.name}: {reason}."


def duration(seconds: float) -> str:
    """As a person reads it."""
    if seconds < 0.0995:
        return f"{round(seconds * 1000)} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 119.5:
        return f"{round(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
