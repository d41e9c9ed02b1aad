"""How a spare is started and stopped, whatever does it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol


class MeansError(Exception):
    """It could not be done. ``str()`` is one sentence for a person."""


class Means(Protocol):
    """Of one spare, in one worker."""

    @property
    def own_process(self) -> bool:
        """It is a process of the worker that starts it: nobody else can stop it."""
        ...

    @property
    def here(self) -> bool:
        """That process is this worker's, and runs."""
        ...

    @property
    def failure(self) -> str:
        """One sentence: why the start came to nothing; empty: nothing is known against it."""
        ...

    @property
    def log(self) -> Path | None:
        """Where the output of the last start is, if it is anywhere."""
        ...

    def answers(self) -> None:
        """It has begun to take requests."""
        ...

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Begins it, and does not wait until it answers. ``tasks``: for what goes on. Raises ``MeansError``."""
        ...

    async def stop(self) -> None:
        """Stops it, or has it stop. Raises ``MeansError``."""
        ...

    async def leave(self) -> None:
        """This worker stops: ends what would be left without anybody to stop it."""
        ...
