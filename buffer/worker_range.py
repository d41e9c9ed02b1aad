"""How many workers ``doublebuffer up`` may have: ``1``, or ``1..4``. Pure."""

from __future__ import annotations

import re

MOST_WORKERS = 64
_RANGE = re.compile(r"([0-9]{1,3})(?:\.\.([0-9]{1,3}))?")


def worker_range(text: str) -> tuple[int, int]:
    """The least and the most. Raises ``ValueError``."""
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise ValueError("it is a number of workers, such as 1, or a range, such as 1..4")
    least = int(found[1])
    most = int(found[2] or found[1])
    if not 1 <= least <= most <= MOST_WORKERS:
        raise ValueError(f"the least is 1 or more, and no more than the most, which is {MOST_WORKERS} or less")
    return least, most


def check_worker_range(value: object) -> str:
    """The same as text. Raises ``ValueError``."""
    text = str(value).strip()
    worker_range(text)
    return text
