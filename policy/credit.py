"""What fits an engine now. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from policy.lane import SHORT_LANES

KV_SHARE: Final = 0.97
"""Of the engine's memory for tokens; past it vLLM throws running requests out and computes them again."""
KV_RESERVE: Final = 0.08
"""Left free by all but the short lanes."""
SEGMENT_TOKENS: Final = 512
SHORT_SHARE: Final = 0.5
"""Of an engine's places and memory, for which the short lanes go first."""
LONG_IN_FLIGHT: Final = 4
LONG_IN_FLIGHT_OLLAMA: Final = 2


class Credit(NamedTuple):
    """The bounds of one back end over all workers. 0 = no bound (for the reserves: nothing reserved)."""

    slots: int
    kv: int = 0
    """Tokens of prompt and expected output in flight."""
    prefill: int = 0
    """Prompt tokens sent that have no first token yet; ``fast`` is not held up by it."""
    long: int = 0
    """Long prompts in flight."""
    reserved_slots: int = 0
    """Places that only the short lanes may take."""
    kv_reserve: int = 0
    """Tokens that only the short lanes may take."""
    segment: int = 0
    """Tokens of the largest piece of a prompt; 0: prompts go whole."""
    pause: float = 0.0
    """How long nothing more is sent to be read beside what is, after something was; in the unit of all instants."""


class Need(NamedTuple):
    """What one job takes of a credit."""

    lane: str
    kv: int = 0
    prefill: int = 0
    long: bool = False


@dataclass(slots=True)
class Load:
    """What a back end carries: sums over the granted jobs."""

    jobs: int = 0
    kv: int = 0
    prefill: int = 0
    long: int = 0

    def add(self, need: Need) -> None:
        self.jobs += 1
        self.kv += need.kv
        self.prefill += need.prefill
        self.long += need.long

    def remove(self, need: Need, *, prefill: int = 0) -> None:
        """``prefill``: what of the job's prefill still counted (0 once it had its first token)."""
        self.jobs -= 1
        self.kv -= need.kv
        self.prefill -= prefill
        self.long -= need.long


def claim_tokens(prompt: int, output: int) -> int:
    """Memory that a job is reckoned to take: those in flight have written half of their expected ``output`` on the
    average.
    """
    return prompt + output // 2


def limits(
    slots: int, *, kv_tokens: int | None = None, ollama: bool = False, segment_tokens: int | None = SEGMENT_TOKENS
) -> Credit:
    """The bounds of an engine that runs ``slots`` jobs side by side and keeps ``kv_tokens`` (None: not told).

    ``segment_tokens``: None where the back end's prefill in flight is not watched.
    """
    slots = max(1, slots)
    kv = kv_tokens or 0
    return Credit(
        slots=slots,
        kv=int(kv * KV_SHARE),
        prefill=2 * segment_tokens if segment_tokens else 0,
        long=_long(slots, ollama=ollama),
        reserved_slots=reserved_slots(slots),
        kv_reserve=int(kv * KV_RESERVE),
    )


def reserved_slots(slots: int) -> int:
    """Places kept for the short lanes: 1 of 4, 4 of 32, none where there are fewer than 4."""
    if slots < 4:
        return 0
    return max(1, slots // 8)


def for_waiting(credit: Credit, oldest_wait_s: float, max_wait_s: float) -> Credit:
    """The bounds while the oldest job has waited for so long. Places that are kept free are places lost, of four a
    quarter of what the engine does: where there are only places to share out, none is kept once somebody has waited for
    a quarter of the longest wait. The short lanes go first to whichever comes free.
    """
    if credit.kv or oldest_wait_s <= max_wait_s / 4:
        return credit
    return credit._replace(reserved_slots=0)


def _long(slots: int, *, ollama: bool) -> int:
    """One place is left to others wherever there are two; a single one can't be shared, so no cap holds it."""
    if slots == 1:
        return 0
    return min(LONG_IN_FLIGHT_OLLAMA if ollama else LONG_IN_FLIGHT, max(1, slots // 2))


def fits(need: Need, load: Load, credit: Credit) -> bool:
    """Whether a job may go now. One that is larger than a whole credit goes when that credit is unused, so it can't
    wait for ever."""
    short = need.lane in SHORT_LANES
    places = credit.slots if short else max(1, credit.slots - credit.reserved_slots)
    if load.jobs >= places:
        return False
    if (
        credit.kv
        and need.kv
        and load.kv > 0
        and load.kv + need.kv > (credit.kv if short else credit.kv - credit.kv_reserve)
    ):
        return False
    if credit.long and need.long and load.long >= credit.long:
        return False
    return not (
        credit.prefill
        and need.prefill
        and need.lane != "fast"
        and load.prefill > 0
        and load.prefill + need.prefill > credit.prefill
    )


def may_go_first(need: Need, short: Load, credit: Credit) -> bool:
    """Whether a job of a short lane goes before all others whatever the scores say, ``short`` being what these lanes
    have in flight: while it is less than half of the engine. The rest is left to those who have waited longer.
    """
    if short.jobs + 1 > int(credit.slots * SHORT_SHARE):
        return False
    return not credit.kv or short.kv + need.kv <= credit.kv * SHORT_SHARE


def may_pass(need: Need, barred: Need, younger: Load, credit: Credit) -> bool:
    """Whether a job may go before one that has waited for too long and does not fit, ``younger`` being what those in
    flight carry that came as late.

    They may never have so much that the other does not fit once those before it are done: it waits for these alone. So
    a short chat goes past a document that waits for another one's end.
    """
    short = need.lane in SHORT_LANES
    places = credit.slots - 1 if short else credit.slots - 1 - 2 * credit.reserved_slots
    if younger.jobs + 1 > places - (0 if barred.lane in SHORT_LANES else credit.reserved_slots):
        return False
    if need.long and barred.long:
        return False
    if not credit.kv or not need.kv:
        return True
    room = credit.kv - credit.kv_reserve - barred.kv
    return younger.kv + need.kv <= room - (0 if short else credit.kv_reserve / 2)
