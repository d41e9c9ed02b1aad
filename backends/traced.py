"""The span of one call of an engine, around its answer's events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

from backends.base import BackendError, Stream

if TYPE_CHECKING:
    from buffer.span_kinds import CallSpan


async def traced(call: CallSpan, ask: Callable[[Mapping[str, str]], Stream]) -> Stream:
    """The events of ``ask``, which gets the headers that belong to the call."""
    try:
        async with aclosing(ask(call.headers)) as stream:
            async for events in stream:
                call.heard(events)
                yield events
    except BackendError as error:
        call.failed(error.kind, error.status)
        raise
    finally:
        call.close()
