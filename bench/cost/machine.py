"""What a measurement was made on."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    processor: str
    cores: int
    memory_gib: float
    system: str
    python: str
    load: float
    """Processes that ran or wanted to when it was over, on the average of the last minute."""
    at: str

    def told(self) -> str:
        return (
            f"{self.processor}, {self.cores} cores, {self.memory_gib:.0f} GiB, {self.system}, Python {self.python}; "
            f"{self.at}, load {self.load:.1f}"
        )


def machine() -> Machine:
    return Machine(
        processor=_told("/proc/cpuinfo", "model name") or platform.machine(),
        cores=os.cpu_count() or 1,
        memory_gib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        load=os.getloadavg()[0],
        at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _told(file: str, name: str) -> str:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
