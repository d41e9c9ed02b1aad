"""When a back end may work in place of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from buffer.load import BackendState

UNKNOWN_S = 15.0
"""So long after the start a back end of which nobody has told anything may just not have been looked at yet."""


class Principal(Protocol):
    """A back end of this worker that another stands in for."""

    @property
    def looked_at(self) -> bool: ...

    @property
    def out_of_service(self) -> bool: ...

    def upstream(self, queue: str) -> str | None: ...


class StandIn:
    """Knows of one back end those that it stands in for: of this worker's own at first hand, of others by what their
    workers tell of them."""

    def __init__(self, names: Sequence[str], clock: Callable[[], float]) -> None:
        """``names``: of ``fallback_for``. ``clock``: seconds."""
        self.names = tuple(names)
        self.own: Mapping[str, Principal] = {}
        """This worker's back ends."""
        self._told: dict[str, BackendState] = {}
        self._clock = clock
        self._sure_at = clock() + UNKNOWN_S

    def hear(self, states: Sequence[BackendState]) -> None:
        """What all workers tell of their back ends, this one's included."""
        self._told = {state.name: state for state in states if state.name in self.names}

    def unknown(self) -> list[str]:
        """Those of which nobody tells anything, though there was time to; they count as gone."""
        return [name for name in self.names if name not in self.own and name not in self._told and self._is_out(name)]

    def for_whom(self, queue: str) -> list[str]:
        """The back ends in whose place it does this queue's jobs; none: they are its own."""
        return [name for name in self.names if self._serves(name, queue)]

    def covers(self, queue: str) -> bool:
        """Whether it may take this queue's jobs now: none of those that should do them can."""
        return all(self._is_out(name) for name in self.for_whom(queue))

    def _serves(self, name: str, queue: str) -> bool:
        own = self.own.get(name)
        if own is not None:
            # Before the first look nobody knows what it serves, and it is to be asked first.
            return not own.looked_at or own.upstream(queue) is not None
        state = self._told.get(name)
        # What a back end serves of which nobody tells, nobody knows.
        return state is None or queue in state.queues()

    def _is_out(self, name: str) -> bool:
        own = self.own.get(name)
        if own is not None:
            return own.out_of_service
        state = self._told.get(name)
        if state is None:
            return self._clock() >= self._sure_at
        return not state.up or state.breaker_open or state.trial
