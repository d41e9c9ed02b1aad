"""Requests of jobs to one engine: each on a connection of its own for as long as it takes, kept for the next."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import httpx

from backends.http import Connection
from backends.kept import Kept

MOST_STALE = 8
"""Kept connections that may turn out to be closed, one after the other, before one request fails."""


class Asking:
    """``url``: what paths are put behind; ``headers``: of every request."""

    def __init__(self, url: str, headers: Mapping[str, str], *, connect_timeout_s: float) -> None:
        self._url = url
        # A compressor on the way would keep tokens back.
        self._headers = {**headers, "Accept": "*/*", "Accept-Encoding": "identity"}
        self._connect_timeout_s = connect_timeout_s
        self._kept: Kept | None = None
        self._heads: dict[str, str] = {}

    async def ask(self, path: str, body: bytes, headers: Mapping[str, str], until_at: float) -> Connection:
        """Posts a body, and gives the connection on which the answer comes, once its head is there.

        A connection that was kept open may have been closed by the engine as the request was on its way: then the
        request was not read, and goes out again. Where the connection was new, or an answer had begun, that is a
        failure like any other.
        Raises ``OSError``, ``httpx.InvalidURL`` and, at ``until_at``, ``TimeoutError``.
        """
        kept = self._keep()
        head = self._head(path, body, headers)
        stale = 0
        while True:
            connection = kept.take() or await kept.new(until_at)
            fresh = connection.fresh
            try:
                connection.ask(head, body)
                await connection.head(until_at)
            except BaseException as error:
                kept.put_back(connection)
                stale += 1
                if fresh or connection.heard or stale > MOST_STALE or not isinstance(error, ConnectionError):
                    raise
            else:
                return connection

    def put_back(self, connection: Connection) -> None:
        """Its answer is not read any further."""
        if self._kept is not None:
            self._kept.put_back(connection)

    def _head(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Request line and headers."""
        fixed = self._heads.get(path)
        if fixed is None:
            url = httpx.URL(self._url + path)
            first = f"POST {url.raw_path.decode()} HTTP/1.1\r\nHost: {url.netloc.decode()}\r\n"
            fixed = self._heads[path] = first + _lines(self._headers)
        return f"{fixed}{_lines(headers)}Content-Length: {len(body)}\r\n\r\n".encode("latin-1")

    def _keep(self) -> Kept:
        if self._kept is None:
            url = httpx.URL(self._url)
            tls = partial(httpx.create_ssl_context, trust_env=False) if url.scheme == "https" else None
            self._kept = Kept(url, tls, connect_timeout_s=self._connect_timeout_s)
        return self._kept

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()


def _lines(headers: Mapping[str, str]) -> str:
    """Raises ``httpx.InvalidURL`` on one that would end its line: the operator's, since all others are our own."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if lines.count("\n") != len(headers) or lines.count("\r") != len(headers):
        raise httpx.InvalidURL("A header has a line break in it.")
    return lines
