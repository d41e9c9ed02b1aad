"""SIGTERM and Ctrl-C: the first asks for an orderly end, the second ends at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator

STOPPED_BY_FORCE = 130


@contextlib.contextmanager
def stop_on_signals() -> Iterator[asyncio.Event]:
    """An event that the first signal sets; the second leaves the process without another word."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def told() -> None:
        if stop.is_set():
            os._exit(STOPPED_BY_FORCE)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
