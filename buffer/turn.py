"""One turn of a worker's writing: one pipeline, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from buffer.access import Command
from buffer.attempt import Attempt
from buffer.closing import Closing
from buffer.frames import Part, pack
from buffer.lanes import Lanes
from buffer.said import Chunk

APPEND_AT_ONCE = 64
"""Jobs of one append; more would hold up the store's other clients."""


class Turn:
    """Commands in the order of the calls; ``send`` sends them and notes the outcome in the attempts and here."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._commands: list[Command] = []
        self._readers: list[Callable[[Any], None]] = []
        self.lost: list[Attempt] = []
        """Attempts whose job is another's, or whose reply key cannot be completed any more."""
        self.orphans: list[Attempt] = []
        """Attempts that the store does not know."""
        self.missing: list[Attempt] = []
        """Attempts whose inbox is not there; detached ones do not need one."""
        self.lengths: dict[str, int] = {}
        """Entries of each inbox."""
        self.appends = False
        """All that some attempts have said may be in their reply keys afterwards."""
        self.closed: list[tuple[Attempt, Closing, str | int]] = []

    def append(self, attempts: Iterable[Attempt]) -> None:
        pairs = [(attempt, chunk) for attempt in attempts if (chunk := attempt.chunk()) is not None]
        for start in range(0, len(pairs), APPEND_AT_ONCE):
            some = pairs[start : start + APPEND_AT_ONCE]
            call = self._lanes.append_call([chunk for _, chunk in some])
            self._add(call, partial(self._appended, some))
            self.appends = True

    def frame(self, inbox: str, attempts: Sequence[Attempt]) -> None:
        """A frame of what these attempts have to send, if any, and a look at the inbox's length."""
        pairs = [(attempt, part) for attempt in attempts if (part := attempt.part()) is not None]
        key = self._lanes.keys.inbox(inbox)
        if pairs:
            blob = pack([part for _, part in pairs])
            call = self._lanes.store.pressing(self._lanes.keys.base, ("XADD", key, "NOMKSTREAM", "*", "p", blob))
            self._add(call, lambda reply: self._sent(pairs, reply))
        self._add(("XLEN", key), lambda reply: self.lengths.__setitem__(inbox, reply))

    def close(self, attempt: Attempt, closing: Closing) -> None:
        self._add(
            closing.call(self._lanes, attempt),
            partial(self._closed, attempt, closing, attempt.fence),
        )

    def _add(self, command: Command, reader: Callable[[Any], None]) -> None:
        self._commands.append(command)
        self._readers.append(reader)

    async def send(self) -> None:
        """Raises ``StoreUnavailable``; then nothing is noted, and all of it should be sent again."""
        if not self._commands:
            return
        results = await self._lanes.store.exchange(self._commands, patient=True)
        self._lanes.store.ring("inbox")
        for reader, result in zip(self._readers, results, strict=True):
            if isinstance(result, Exception):
                raise result
            reader(result)

    # While a turn is under way, an attempt may be adopted: what the turn did under the old fence counts no more.

    def _closed(self, attempt: Attempt, closing: Closing, fence: int, reply: Any) -> None:
        result = closing.read(self._lanes, reply)
        if result == "orphan":
            if attempt.fence == fence:
                self.orphans.append(attempt)
        elif attempt.fence == fence:
            self.closed.append((attempt, closing, result))

    def _sent(self, pairs: Sequence[tuple[Attempt, Part]], reply: Any) -> None:
        for attempt, part in pairs:
            if attempt.fence != part.fence:
                continue
            attempt.was_sent(part.n + len(part.events) - 1)
            if reply is None:
                if not attempt.det:
                    self.missing.append(attempt)
            else:
                attempt.nil_since = None

    def _appended(self, pairs: Sequence[tuple[Attempt, Chunk]], reply: Any) -> None:
        for (attempt, chunk), result in zip(pairs, self._lanes.appended(reply), strict=True):
            if attempt.fence != chunk.fence:
                continue
            if result == "orphan":
                self.orphans.append(attempt)
            elif not isinstance(result, int) or not attempt.was_appended(chunk, result):
                self.lost.append(attempt)
