"""One connection to a server of the store, on which the commands of many callers are under way at a time.

redis-py opens it, with all that it knows of TLS, passwords, databases and Sentinels. From then on its bytes come here:
a connection for each caller, a stream reader and a coroutine for each reply cost three times what the server does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import hiredis
from redis import exceptions as errors
from redis._parsers.base import BaseParser

Command = tuple[Any, ...]
Reads = Mapping[str, Callable[[Any], Any]]
"""What redis-py makes of the replies to a command."""

Then = Callable[[list[Any] | None], None]

log = logging.getLogger("doublebuffer.buffer")

LOST = "The connection was closed."


class Batch:
    """Commands of one caller, sent together; what becomes of them is told once."""

    __slots__ = ("_awaited", "_error", "_reads", "_results", "aged", "ticks")

    def __init__(self, commands: Sequence[Command], reads: Reads, ticks: int) -> None:
        self.ticks = ticks
        """How many more of the clock's steps it is waited for."""
        self.aged = False
        """Some have passed."""
        self._reads = [reads.get(command[0]) for command in commands]
        self._awaited = len(commands)
        self._results: list[Any] = []
        self._error: Exception | None = None

    @property
    def over(self) -> bool:
        """Nobody waits for it any more."""
        raise NotImplementedError

    def take(self, reply: Any) -> bool:
        """The next reply. True: it was the last one."""
        if isinstance(reply, errors.ConnectionError):
            # So redis-py calls what is no fault of the command's: the server is still loading, or asks for a password.
            self._error = reply
        elif (read := self._reads[len(self._results)]) is not None and not isinstance(reply, Exception):
            reply = read(reply)
        self._results.append(reply)
        if len(self._results) < self._awaited:
            return False
        if self._error is not None:
            self.fail(self._error)
        else:
            self._give(self._results)
        return True

    def _give(self, results: list[Any]) -> None:
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        raise NotImplementedError


class Asked(Batch):
    """``result``: what came of each command, an error of a single one in its place."""

    __slots__ = ("result",)

    def __init__(
        self, result: asyncio.Future[list[Any]], commands: Sequence[Command], reads: Reads, ticks: int
    ) -> None:
        super().__init__(commands, reads, ticks)
        self.result = result

    @property
    def over(self) -> bool:
        return self.result.done()

    def _give(self, results: list[Any]) -> None:
        if not self.result.done():
            self.result.set_result(results)

    def fail(self, error: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(error)
            # Whoever asked may have left meanwhile.
            self.result.exception()


class Told(Batch):
    """``then`` is called with the same, in the turn in which the last reply comes; with None on any failure."""

    __slots__ = ("_then",)

    def __init__(self, then: Then, commands: Sequence[Command], reads: Reads, ticks: int) -> None:
        super().__init__(commands, reads, ticks)
        self._then: Then | None = then

    @property
    def over(self) -> bool:
        return self._then is None

    def _give(self, results: list[Any] | None) -> None:
        then, self._then = self._then, None
        if then is None:
            return
        try:
            then(results)
        except Exception:
            # It must not cost the others on this connection their answers.
            log.exception("What came of a command of the store could not be taken in")

    def fail(self, error: Exception) -> None:
        self._give(None)


class Wire(asyncio.Protocol):
    """``connection``: redis-py's, just opened. Replies come in the order of the commands."""

    def __init__(self, connection: Any, reads: Reads) -> None:
        self._reads = reads
        self._loop = asyncio.get_running_loop()
        self._under_way: deque[Batch] = deque()
        self._out: list[bytes] = []
        self._reader = hiredis.Reader(protocolError=errors.InvalidResponse, replyError=BaseParser.parse_error)
        # redis-py is to know nothing of it any more; but forgotten, the writer would close what it writes to.
        self._writer = connection._writer
        connection._writer = connection._reader = None
        self._transport: asyncio.Transport = self._writer.transport
        self._transport.set_protocol(self)
        self.closed = self._transport.is_closing()
        self.retired = False
        """Nothing more is to be sent on it; it is closed once what is under way has ended."""

    def send(self, commands: Sequence[Command], ticks: int) -> Asked:
        """Sends the commands in this order. Raises redis-py's ``ConnectionError``."""
        if self.closed or self._transport.is_closing():
            raise errors.ConnectionError(LOST)
        batch = Asked(self._loop.create_future(), commands, self._reads, ticks)
        self._put(batch, commands)
        return batch

    def tell(self, commands: Sequence[Command], ticks: int, then: Then) -> bool:
        """Sends the commands, and calls ``then``, as ``Told`` does. False: it cannot."""
        if self.closed or self.retired or self._transport.is_closing():
            return False
        self._put(Told(then, commands, self._reads, ticks), commands)
        return True

    def _put(self, batch: Batch, commands: Sequence[Command]) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out += [hiredis.pack_command(command) for command in commands]
        self._under_way.append(batch)

    def _flush(self) -> None:
        """What all callers sent in one turn of the loop goes out together: each send wakes the server by itself."""
        out, self._out = self._out, []
        if self.closed:
            return
        try:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        except RuntimeError:
            # A connection that was reset a moment ago: uvloop says so in words of its own.
            self.close()

    def data_received(self, data: bytes) -> None:
        reader, under_way = self._reader, self._under_way
        reader.feed(data)
        try:
            while under_way and (reply := reader.gets()) is not False:
                if type(reply) is hiredis.PushNotification and reply[0] != b"subscribe":
                    # Of version 3 of the protocol, if the URL asks for that: nobody's answer, but that to a SUBSCRIBE.
                    continue
                if under_way[0].take(reply):
                    under_way.popleft()
        except errors.InvalidResponse as error:
            self._end(error)
            return
        if not under_way and (self.retired or reader.has_data()):
            # Nobody asked for what is there, so nothing behind it can be told apart any more.
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(errors.ConnectionError(LOST))

    def tick(self, most: int | None = None) -> None:
        """A step of the clock has passed. With ``most``: none has, but no more than so many are left for anything."""
        late = False
        for batch in self._under_way:
            if most is None:
                batch.ticks, batch.aged = batch.ticks - 1, True
            else:
                batch.ticks = min(batch.ticks, most)
            if batch.ticks <= 0 and not batch.over:
                late = True
                batch.fail(TimeoutError("No answer came in time."))
        if late or self.retired:
            self.retire()

    @property
    def idle(self) -> bool:
        return not self._under_way

    def retire(self) -> None:
        self.retired = True
        if all(batch.over for batch in self._under_way):
            self.close()

    def close(self) -> None:
        """At once; what is under way fails."""
        self._end(errors.ConnectionError(LOST))

    def _end(self, error: Exception) -> None:
        if not self.closed:
            self.closed = True
            self._transport.abort()
        while self._under_way:
            self._under_way.popleft().fail(error)
