"""One request and its answer, read as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from backends.base import Stream
from backends.client import Client
from backends.failures import early_end
from backends.http import Connection
from backends.reader import Reader
from backends.traced import traced
from backends.wire import LINE_LIMIT
from buffer.job import Event
from buffer.tracing import CURRENT

COMPLETE_S = 2.0
"""How long counts may still come after every answer has ended."""


@dataclass(frozen=True, slots=True)
class Patience:
    first_s: float
    """From the request to the model's first word."""
    stall_s: float
    """Between two messages of the engine after that."""


def exchange(
    client: Client,
    path: str,
    body: bytes,
    reader: Reader,
    *,
    headers: Mapping[str, str],
    patience: Patience,
    at_end: Callable[[], None] | None = None,
) -> Stream:
    """The events of one request. Closing it closes the connection. Raises ``BackendError``. ``at_end``: called when
    nothing more is read.
    """
    attempt = CURRENT.get()
    if attempt is None:
        return Exchange(client, path, body, reader, headers=headers, patience=patience, at_end=at_end)
    ask = partial(Exchange, client, path, body, reader, patience=patience, at_end=at_end)
    return traced(attempt.call(path), lambda more: ask(headers={**headers, **more}))


class Exchange:
    """See ``exchange``."""

    __slots__ = (
        "_at_end",
        "_body",
        "_client",
        "_connection",
        "_ended",
        "_headers",
        "_left",
        "_loop",
        "_page",
        "_path",
        "_patience",
        "_reader",
        "_seen",
        "_until_at",
    )

    def __init__(
        self,
        client: Client,
        path: str,
        body: bytes,
        reader: Reader,
        *,
        headers: Mapping[str, str],
        patience: Patience,
        at_end: Callable[[], None] | None,
    ) -> None:
        self._client = client
        self._path = path
        self._body = body
        self._reader = reader
        self._headers = headers
        self._patience = patience
        self._at_end = at_end
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._page = False
        """The answer comes whole, as JSON."""
        self._seen = 0
        """Messages of the engine when it was last looked whether it goes on."""
        self._until_at = 0.0
        self._ended = False
        """The body is over, or what it still holds is not wanted."""
        self._left = False

    def __aiter__(self) -> Exchange:
        return self

    async def __anext__(self) -> list[Event]:
        if self._left:
            raise StopAsyncIteration
        client, reader = self._client, self._reader
        try:
            connection = self._connection or await self._begin()
            while self._goes_on():
                try:
                    data = await (self._all(connection) if self._page else connection.next(self._until_at))
                except OSError as error:
                    if not reader.complete:
                        raise client.amid(error) from error
                    break
                self._ended = self._page or data is None
                events = reader.flush() if data is None else reader.whole(data) if self._page else reader.feed(data)
                if events:
                    return events
            else:
                if not self._ended:
                    await client.tail(connection)
        except BaseException:
            self._leave()
            raise
        self._leave()
        raise StopAsyncIteration

    async def flow(self, words: Callable[[list[str]], bool], take: Callable[[list[Event]], bool]) -> None:
        """Gives what comes to ``take`` in the turn in which it comes, and to ``words``, a text for each message of the
        engine, where it is nothing else; until one of them says that nothing more is to be read, or the answers have
        ended. What follows comes by ``__anext__``, and so does whatever went wrong.
        """
        connection, reader = self._connection, self._reader
        if connection is None or self._ended or reader.complete or reader.failure is not None:
            return

        def taken(data: bytes) -> bool:
            if texts := reader.plain(data):
                more = words(texts)
            else:
                events = reader.feed(data)
                more = take(events) if events else True
                if reader.complete or reader.failure is not None:
                    return False
            if self._goes_on_saying():
                connection.put_off(self._until_at)
            return more

        self._goes_on_saying()
        await connection.flow(taken, self._until_at)

    async def _begin(self) -> Connection:
        self._until_at = self._loop.time() + self._patience.first_s
        self._connection = await self._client.ask(self._path, self._body, self._headers, self._until_at)
        self._page = _is_page(self._client, self._connection)
        return self._connection

    def _goes_on(self) -> bool:
        """Whether there is to be another read, after what the last one told. Raises ``BackendError``."""
        reader = self._reader
        if reader.failure is not None:
            raise self._client.hushed(reader.failure)
        if self._ended or reader.cut:
            self._ended = True
            return False
        if reader.complete:
            self._until_at = self._loop.time() + COMPLETE_S
        else:
            self._goes_on_saying()
        return not reader.over

    def _goes_on_saying(self) -> bool:
        """Whether the engine has told something since the last look; then it may take its time for what comes next."""
        reader = self._reader
        if not reader.lively or reader.seen == self._seen:
            return False
        self._seen = reader.seen
        self._until_at = self._loop.time() + self._patience.stall_s
        return True

    async def _all(self, connection: Connection) -> bytes:
        whole = bytearray()
        while (data := await connection.next(self._until_at)) is not None:
            whole += data
            if len(whole) > LINE_LIMIT:
                raise early_end(self._client.name, "sent more than any answer can be")
        return bytes(whole)

    async def aclose(self) -> None:
        self._leave()

    def _leave(self) -> None:
        self._left = True
        connection, self._connection = self._connection, None
        if connection is not None:
            self._client.put_back(connection)
        at_end, self._at_end = self._at_end, None
        if at_end is not None:
            at_end()


def _is_page(client: Client, response: Connection) -> bool:
    """Whether the answer comes whole, as JSON. Raises ``BackendError`` on a page for people."""
    content_type: str = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "text/html":
        raise early_end(client.name, "answered with a web page; is its address right?")
    return content_type == "application/json"
