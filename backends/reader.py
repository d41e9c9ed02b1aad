"""What reads an answer of one kind of engine. Pure."""

from __future__ import annotations

from typing import Protocol

from backends.base import BackendError
from buffer.job import Event


class Reader(Protocol):
    """Takes an answer's bytes, gives its events. It raises nothing: what came before an error is not to be lost."""

    @property
    def failure(self) -> BackendError | None:
        """What went wrong, after the events given so far."""
        ...

    @property
    def complete(self) -> bool:
        """Every answer has ended."""
        ...

    @property
    def cut(self) -> bool:
        """Every answer has ended, though the engine would go on."""
        ...

    @property
    def over(self) -> bool:
        """The engine has said that nothing more comes."""
        ...

    @property
    def lively(self) -> bool:
        """The model has said or thought something."""
        ...

    @property
    def seen(self) -> int:
        """How many messages of the engine have come, comments not counted."""
        ...

    def feed(self, data: bytes) -> list[Event]: ...

    def plain(self, data: bytes) -> list[str]:
        """The words of each message in the bytes, if they are such of words for the first answer and nothing else. Else
        none: they are still to be fed.
        """
        ...

    def flush(self) -> list[Event]:
        """At the end of the bytes."""
        ...

    def whole(self, body: bytes) -> list[Event]:
        """An answer that came in one piece."""
        ...
