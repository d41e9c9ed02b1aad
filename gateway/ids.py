"""Ids that nobody can guess."""

from __future__ import annotations

import os

_BYTES = 16
_AT_ONCE = 256
_ready: list[str] = []
"""Made ahead: asking the system for each by itself costs more than all else about it."""


def new_id() -> str:
    """32 hexadecimal digits, never given before. Any thread may ask."""
    try:
        return _ready.pop()
    except IndexError:
        digits = os.urandom(_BYTES * _AT_ONCE).hex()
        _ready.extend(digits[at : at + 2 * _BYTES] for at in range(0, len(digits), 2 * _BYTES))
        return _ready.pop()


# A child is not to give the same ones as its parent.
os.register_at_fork(after_in_child=_ready.clear)
