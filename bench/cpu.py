"""CPU seconds that processes have used, as the kernel counts them. Linux only; elsewhere nothing is told."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_STAT = Path("/proc")


def cpu_s(pids: Mapping[str, int]) -> dict[str, float]:
    """Name → seconds so far, user and system together; without those that cannot be looked at."""
    used = {name: _of(pid) for name, pid in pids.items()}
    return {name: seconds for name, seconds in used.items() if seconds is not None}


def _of(pid: int) -> float | None:
    try:
        text = (_STAT / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The command's name, in brackets, may have spaces in it.
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load_average() -> float | None:
    """Of the machine over the last minute; None where it is not told."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def cores(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Share of a core that each used between two looks."""
    return {name: (after[name] - used) / seconds for name, used in before.items() if name in after and seconds > 0}
