"""What engines carry."""

from __future__ import annotations

from collections.abc import Iterable

from policy.credit import Load, Need


def load_of(needs: Iterable[Need]) -> Load:
    load = Load()
    for need in needs:
        load.add(need)
    return load
