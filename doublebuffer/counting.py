"""What a process tells of itself while it runs: its counters, and its spans where somebody wants traces."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from buffer.telemetry import Telemetry
from buffer.tracing import open_spans
from worker.gpu import watch_gpus


@asynccontextmanager
async def telling_of(service: str, *, engines_near: bool = False) -> AsyncIterator[Telemetry]:
    """``service``: its name in traces, where the environment gives none. ``engines_near``: it works with engines, so
    this machine's GPUs may be theirs.
    """
    telemetry = Telemetry()
    telemetry.spans = open_spans(os.environ, service)
    if engines_near:
        watch_gpus(telemetry.registry)
    try:
        yield telemetry
    finally:
        if telemetry.spans is not None:
            await telemetry.spans.aclose()
