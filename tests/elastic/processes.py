"""What runs on this machine, by number."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


async def gone(*pids: int, within_s: float = 20.0) -> None:
    """Waits until none of them lives."""
    async with asyncio.timeout(within_s):
        while any(lives(pid) for pid in pids):
            await asyncio.sleep(0.01)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descendants(pid: int) -> list[int]:
    return [one for child in children(pid) for one in (child, *descendants(child))]
