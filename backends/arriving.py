"""What has come of an engine's answer: httptools takes it apart, and each part of the body is put where its reader
finds it.
"""

from __future__ import annotations

import httptools

from backends.unpacking import Unpacking, packed


class NoHttpError(OSError):
    """What came is no HTTP."""


class ClosedError(ConnectionError):
    """The connection was closed before the answer was complete."""


class Arriving:
    """One answer after the other; ``_clear`` begins one. Its public methods are the parser's calls."""

    def _clear(self) -> None:
        self.headers: dict[str, str] = {}
        self.status_code = 0
        self.complete = False
        """The answer has come to its end."""
        self._parts: list[bytes] = []
        self.on_body = self._parts.append  # of the parser's calls the one that comes for each token
        self._size = self._empty = 0
        self.heard = False
        """Something of the answer has come."""
        self._held = self._stays = False
        self._error: Exception | None = None
        self._unpacking: Unpacking | None = None
        self._parser = httptools.HttpResponseParser(self)

    def _ends_with_the_connection(self) -> bool:
        return not {"content-length", "transfer-encoding"} & self.headers.keys()

    def _wake(self) -> None:
        """Tells whoever waits for the answer to look."""
        raise NotImplementedError

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self._wake()

    def on_message_begin(self) -> None:
        if self.complete:
            raise NoHttpError("An answer came that nobody had asked for.")
        self._stays = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status_code:
            # Behind the body, or of another answer that nobody asked for.
            return
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self.complete:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self.headers.clear()
            return
        self.status_code = status
        if encoding := packed(self.headers.get("content-encoding", "")):
            self._unpacking = Unpacking(encoding, self._parts)

    def on_message_complete(self) -> None:
        if not self.status_code or self.complete:
            return
        if self._unpacking is not None:
            self._unpacking.unpack(self._size)
            if not self._unpacking.end():
                self._fail(ClosedError("What was packed ended too early."))
                return
        self.complete = True
        # To be asked now: the parser forgets it.
        self._stays = self._parser.should_keep_alive()
        self._wake()
