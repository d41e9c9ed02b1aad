"""An answer's events, whichever attempt at it they come from."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from backends.base import BackendError, Stream
from backends.exchange import Exchange
from backends.failures import ContextTooLongError, broken
from backends.trim import trim
from buffer.job import Chat, Event

TRIMS = 3
"""How often a prompt that is too long is cut and sent again."""


class Guarded:
    """An attempt's events, with its errors named by whether something had come before.

    A prompt that is too long loses its oldest turns and is sent again, where the client's API promises that.
    """

    __slots__ = ("_attempt", "_begun", "_chat", "_stream", "_trims_left")

    def __init__(self, chat: Chat, attempt: Callable[[Chat], Stream]) -> None:
        self._chat = chat
        self._attempt = attempt
        self._stream: Stream | None = None
        self._begun = False
        self._trims_left = TRIMS

    def __aiter__(self) -> Guarded:
        return self

    async def __anext__(self) -> list[Event]:
        while True:
            try:
                if self._stream is None:
                    self._stream = self._attempt(self._chat)
                events = await self._stream.__anext__()
            except ContextTooLongError as error:
                shorter = self._shorter(error)
                if shorter is None:
                    raise
                self._chat = shorter
                await self.aclose()
            except BackendError as error:
                if self._begun and error.kind != "client":
                    raise broken(error) from error
                raise
            else:
                self._begun = True
                return events

    async def flow(self, words: Callable[[list[str]], bool], take: Callable[[list[Event]], bool]) -> None:
        """See ``Exchange.flow``."""
        if isinstance(self._stream, Exchange):
            await self._stream.flow(words, take)

    def _shorter(self, error: ContextTooLongError) -> Chat | None:
        chat = self._chat
        if chat.prompt is not None:
            error.param = "prompt"
        if self._begun or not self._trims_left or chat.front != "ollama" or not chat.truncate:
            return None
        self._trims_left -= 1
        shorter = trim(chat.messages, error.share)
        return msgspec.structs.replace(chat, messages=shorter) if shorter else None

    async def aclose(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.aclose()
