"""What happened in the last minutes, over all gateways and workers: for those who look on.

Each process counts by slots of five seconds and adds what it has counted to sums in the store, which live a little
longer than they are shown. A process that counted nothing asks the store for nothing. No name that a client can choose
is among what is counted.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from buffer.access import Command, Store
from buffer.keys import counted
from buffer.trouble import StoreUnavailable

SLOT_S = 5
TELL_S = 2.0
"""How often a process tells, if there is something to tell."""
SLOTS = 120
"""Slots that are shown: ten minutes."""
KEPT_S = SLOT_S * (SLOTS + 12)
LATE_SLOTS = 3
"""So many of the newest may still grow."""
_STEPS = 4
"""Steps in which a time doubles: a step's middle is off by a tenth at most."""
_LEAST_S = 0.001


@dataclass(slots=True)
class Counted:
    """What was counted in some slots."""

    first: dict[str, Counter[int]] = field(default_factory=dict)
    """Lane → step → first words that took so long."""
    wait: dict[str, Counter[int]] = field(default_factory=dict)
    """Lane → step → jobs that waited so long for their first dispatch."""
    tokens: Counter[str] = field(default_factory=Counter)
    """Back end → tokens that it said."""
    batch: Counter[int] = field(default_factory=Counter)
    """Jobs → batches of so many."""
    ended: Counter[str] = field(default_factory=Counter)
    """Outcome → requests."""
    cache: Counter[str] = field(default_factory=Counter)
    """What the answer cache had → requests."""

    def add(self, other: Counted) -> None:
        for mine, others in ((self.first, other.first), (self.wait, other.wait)):
            for lane, found in others.items():
                mine.setdefault(lane, Counter()).update(found)
        self.tokens.update(other.tokens)
        self.batch.update(other.batch)
        self.ended.update(other.ended)
        self.cache.update(other.cache)

    @property
    def spared(self) -> float | None:
        """The part of the requests, among those that may have an answer that is kept, that needed no job of their own:
        they found one, or joined another's. None: there were none.
        """
        asked = self.cache.total() - self.cache["bypass"]
        return 1 - self.cache["miss"] / asked if asked > 0 else None

    @property
    def said(self) -> int:
        """Tokens of all back ends."""
        return max(0, self.tokens.total())


Slots = Mapping[int, Counted]


class Recent:
    """What this process has counted and not told yet."""

    def __init__(self) -> None:
        self._slots: dict[int, Counter[str]] = {}
        self._now: Counter[str] = Counter()
        """The one of these for what happens"""
        self._until_at = 0.0
        """before this instant, and within its five seconds."""
        self.before_told: Callable[[], None] = lambda: None
        """Called before what was counted is told: who has more has to add it."""

    def add(self, name: str, count: int = 1) -> None:
        """Counts something that happens now."""
        at = time.time()
        if not self._until_at - SLOT_S <= at < self._until_at:
            slot = int(at) // SLOT_S
            self._now = self._slots.setdefault(slot, Counter())
            self._until_at = float((slot + 1) * SLOT_S)
        self._now[name] += count

    def said(self, backend: str, tokens: int) -> None:
        """An engine has said so many tokens; less than none: it had been taken for more."""
        if tokens:
            self.add(f"tokens:{backend}", tokens)

    async def run(self, store: Store) -> None:
        """Tells the store, again and again. Several may run; each count is told by one of them."""
        while True:
            await asyncio.sleep(TELL_S)
            await self.tell(store)

    async def tell(self, store: Store) -> None:
        """Adds what was counted to the sums of all. While the store is away it is kept, for as long as it is shown."""
        self.before_told()
        slots, self._slots, self._until_at = self._slots, {}, 0.0
        oldest = int(time.time()) // SLOT_S - SLOTS
        commands: list[Command] = []
        for slot, counts in slots.items():
            if slot < oldest:
                continue
            key = counted(store.prefix, slot)
            commands += [("HINCRBY", key, name, count) for name, count in counts.items()]
            commands.append(("EXPIRE", key, KEPT_S))
        if not commands:
            return
        try:
            # Once: what may have been carried out is not added a second time.
            results = await store.exchange(commands, again=False)
            refused = any(isinstance(result, Exception) for result in results)
        except StoreUnavailable:
            refused = True
        if refused:
            for slot, counts in slots.items():
                if slot >= oldest:
                    self._slots.setdefault(slot, Counter()).update(counts)


class Sums:
    """The sums of all processes, as far as they were read. Old slots, which do not change any more, are read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._slots: dict[int, Counted] = {}
        self._last = 0

    async def read(self) -> Slots:
        """By slot, the shown ones. Raises ``StoreUnavailable``."""
        newest = int(time.time()) // SLOT_S
        first = newest - SLOTS + 1
        missing = range(max(first, self._last - LATE_SLOTS), newest + 1)
        found = await self._store.exchange([("HGETALL", counted(self._store.prefix, slot)) for slot in missing])
        for slot, flat in zip(missing, found, strict=True):
            if isinstance(flat, Exception):
                raise flat
            self._slots[slot] = read_counts({name.decode(): int(count) for name, count in flat.items()})
        self._last = newest
        self._slots = {slot: counts for slot, counts in self._slots.items() if first <= slot <= newest}
        return self._slots


def last_slot(at: float) -> int:
    """The newest slot of which, at an instant in seconds since 1970, everybody has told all."""
    return int(at - TELL_S - 0.5) // SLOT_S - 1


def step_of(seconds: float) -> int:
    """The step that a time belongs to."""
    return max(0, math.floor(math.log2(max(seconds, _LEAST_S) / _LEAST_S) * _STEPS))


def read_counts(counts: Mapping[str, int]) -> Counted:
    """Counts by their names, as processes add them up."""
    found = Counted()
    for name, count in counts.items():
        kind, _, about = name.partition(":")
        match kind:
            case "first" | "wait":
                lane, _, step = about.partition(":")
                (found.first if kind == "first" else found.wait).setdefault(lane, Counter())[int(step)] += count
            case "tokens":
                found.tokens[about] += count
            case "batch":
                found.batch[int(about)] += count
            case "ended":
                found.ended[about] += count
            case "cache":
                found.cache[about] += count
    return found


def total(slots: Slots, newest: int, count: int) -> Counted:
    """The sums of ``count`` slots, the last of which is ``newest``."""
    found = Counted()
    for slot in range(newest - count + 1, newest + 1):
        if slot in slots:
            found.add(slots[slot])
    return found


def of_people(by_lane: Mapping[str, Counter[int]]) -> Counter[int]:
    """Of all lanes but the one in which nobody waits for the answer."""
    found: Counter[int] = Counter()
    for lane, counts in by_lane.items():
        if lane != "background":
            found.update(counts)
    return found


def quantile(found: Mapping[int, int], part: float) -> float | None:
    """The time in seconds that ``part`` of what was counted is below, to a tenth; None: nothing was counted."""
    left = part * sum(found.values())
    if left <= 0:
        return None
    for step, count in sorted(found.items()):
        if count >= left:
            return float(_LEAST_S * 2 ** ((step + left / count) / _STEPS))
        left -= count
    return None
