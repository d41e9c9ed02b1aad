"""The body of an answer that comes packed, though none was asked for. Pure."""

from __future__ import annotations

import zlib

MOST_UNPACKED = 16 * 1024 * 1024
"""Bytes that wait for their reader; what grows beyond this in one read is no answer."""
_ZIPPED = {"gzip": 31, "x-gzip": 31, "deflate": zlib.MAX_WBITS}


class Unpacking:
    """Makes of the parts of a body what was packed in them, in place. Its methods raise ``zlib.error``."""

    __slots__ = ("_done", "_parts", "_unzip")

    def __init__(self, encoding: str, parts: list[bytes]) -> None:
        """``encoding``: one that ``packed`` knows."""
        self._unzip = zlib.decompressobj(wbits=_ZIPPED[encoding])
        self._parts = parts
        self._done = len(parts)
        """Where among the parts those begin that are still packed."""

    def begins(self) -> None:
        """What is there by now has been unpacked; more is about to come."""
        self._done = len(self._parts)

    def unpack(self, size: int) -> None:
        """``size``: bytes of the parts that were there before."""
        packed = self._parts[self._done :]
        del self._parts[self._done :]
        try:
            for data in packed:
                plain = self._unzip.decompress(data, max(1, MOST_UNPACKED - size))
                if self._unzip.unconsumed_tail:
                    raise zlib.error("It unpacks to far too much.")
                if plain:
                    self._parts.append(plain)
                    size += len(plain)
        finally:
            self._done = len(self._parts)

    def end(self) -> bool:
        """Whether what was packed has come to its end."""
        if rest := self._unzip.flush():
            self._parts.append(rest)
        return self._unzip.eof


def packed(encoding: str) -> str:
    """The name of the packing that a ``Content-Encoding`` tells; empty: it is none that is known."""
    name = encoding.strip().lower()
    return name if name in _ZIPPED else ""
