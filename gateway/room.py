"""How many bytes of requests a process holds at a time: from the first that comes until each is answered."""

from __future__ import annotations

import sys

from buffer.job import Failure
from gateway.refusal import Refusal

_NO_ROOM = Failure("Too many large requests are being answered; try again later.", 503, "busy", retry_after_s=5)


class Room:
    """``most``: bytes that all requests together may take."""

    def __init__(self, most: int = sys.maxsize) -> None:
        self.most = most
        self.taken = 0


class Held:
    """What one request takes of a room. It has to be let go of in the end."""

    __slots__ = ("_count", "_room")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._count = 0

    def add(self, count: int) -> None:
        """Raises ``Refusal`` where there is no room."""
        room = self._room
        if room.taken + count > room.most:
            raise Refusal(_NO_ROOM, "refused")
        room.taken += count
        self._count += count

    def let_go(self) -> None:
        self._room.taken -= self._count
        self._count = 0
