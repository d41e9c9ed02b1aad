"""Which lane a request belongs to. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Lane = Literal["thinking", "fast", "normal", "slow", "background"]
LANES: Final[tuple[Lane, ...]] = ("thinking", "fast", "normal", "slow", "background")
"""In order of preference."""

SHORT_LANES: Final[frozenset[str]] = frozenset(("thinking", "fast"))
"""Lanes that may use the places and the memory which the others leave free."""

_BY_LENGTH: Final[tuple[Lane, ...]] = ("fast", "normal", "slow")


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """Where one lane ends and the next begins.

    Characters of the newest user message are exclusive bounds, tokens to be read anew are inclusive ones.
    """

    fast_chars: int = 100
    normal_chars: int = 2000
    fast_tokens: int = 512
    normal_tokens: int = 4096


DEFAULT_LIMITS: Final = LaneLimits()


def choose_lane(
    newest_user_chars: int,
    new_tokens: int,
    *,
    thinking: bool = False,
    background: bool = False,
    limits: LaneLimits = DEFAULT_LIMITS,
) -> Lane:
    """The lane by the slower of two readings: what the user just wrote, and what the engine has to read anew.

    ``thinking`` means that the client asked for it and the model can. It lifts a long prompt by one lane only, since
    its prefill blocks others whatever comes after it.
    """
    if background:
        return "background"
    by_chars = (newest_user_chars >= limits.fast_chars) + (newest_user_chars >= limits.normal_chars)
    by_tokens = (new_tokens > limits.fast_tokens) + (new_tokens > limits.normal_tokens)
    lane = _BY_LENGTH[max(by_chars, by_tokens)]
    if not thinking:
        return lane
    return "normal" if lane == "slow" else "thinking"


def is_long(new_tokens: int, limits: LaneLimits = DEFAULT_LIMITS) -> bool:
    """Whether a prompt counts against the cap on long ones in flight, whichever lane it is in."""
    return new_tokens > limits.normal_tokens


def lower(chosen: Lane, wished: str, *, may_raise: bool = False) -> Lane:
    """The wished lane where it is lower than the chosen one, or where ``may_raise``; else, and for no lane's name, the
    chosen one."""
    for lane in LANES:
        if lane == wished:
            return lane if may_raise or LANES.index(lane) > LANES.index(chosen) else chosen
    return chosen
