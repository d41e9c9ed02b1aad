"""From the bytes of an answer to its lines, and to the payloads of server-sent events.

Bytes are split on ``\\n`` and on nothing else: engines send U+2028, U+0085 and the like raw inside JSON texts, and
readers that split on those cut an answer in two. A line is looked at only when it is whole, so no character is cut.
"""

from __future__ import annotations

LINE_LIMIT = 128 * 1024 * 1024
"""Bytes. A picture comes as one line of many megabytes; beyond this it is no answer any more."""

_BOM = b"\xef\xbb\xbf"


class LineTooLongError(Exception):
    """A line passed ``LINE_LIMIT``."""


class Lines:
    """Splits a stream of bytes into lines, without their ends (``\\n`` or ``\\r\\n``)."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._fresh = True

    @property
    def between(self) -> bool:
        """No line has begun."""
        return not self._parts

    def passed(self) -> None:
        """Whole lines went by elsewhere."""
        self._fresh = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that these bytes complete. Raises ``LineTooLongError``."""
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > LINE_LIMIT:
                raise LineTooLongError
        if lines and self._fresh:
            self._fresh = False
            lines[0] = lines[0].removeprefix(_BOM)
        return [line[:-1] if line.endswith(b"\r") else line for line in lines]

    def flush(self) -> bytes:
        """What came after the last line end."""
        rest = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return rest.removesuffix(b"\r")


class Events:
    """Takes the ``data`` payloads out of server-sent events. Comments and other fields are passed over."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._data: list[bytes] = []

    @property
    def between(self) -> bool:
        """No event has begun."""
        return not self._data and self._lines.between

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads of the events that these bytes complete. Raises ``LineTooLongError``."""
        if self.between and data.startswith(b"data: ") and data.endswith(b"\n\n"):
            # Nearly always they are whole events of one line each.
            payloads = data[6:-2].split(b"\n\ndata: ")
            if data.count(b"\n") == 2 * len(payloads) and b"\r" not in data:
                self._lines.passed()
                return payloads
        payloads = []
        for line in self._lines.feed(data):
            self._take(line, payloads)
        return payloads

    def flush(self) -> list[bytes]:
        """The payload of an event whose closing blank line never came; it may be cut short."""
        payloads: list[bytes] = []
        self._take(self._lines.flush(), payloads)
        self._take(b"", payloads)
        return payloads

    def _take(self, line: bytes, payloads: list[bytes]) -> None:
        if not line:
            if self._data:
                payloads.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data = []
        elif line.startswith(b"data:"):
            self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
