"""Which pages of other origins may read our answers, and what a preflight is told."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

_EXPOSED = (
    b"X-Request-Id, X-Doublebuffer-Id, X-Doublebuffer-Lane, X-Doublebuffer-Backend, X-Doublebuffer-Fallback, "
    b"X-Doublebuffer-Cache, Retry-After"
)
_METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
_DAY_S = b"86400"
_REMEMBERED = 1024
_LONGEST_HOST = 256
_PORT = re.compile(rb":[0-9]*$")
_NEAR = (b".localhost", b".local", b".internal", b".home.arpa")
"""Ends of names that nobody outside can have: none of them is in the world's DNS."""


class Cors:
    """``origins``: patterns in which ``*`` stands for any text."""

    def __init__(self, origins: Iterable[str]) -> None:
        patterns = [".*".join(re.escape(part) for part in origin.lower().split("*")) for origin in origins]
        self._allowed = re.compile("|".join(patterns) or r"(?!)", re.DOTALL)
        self._known: dict[bytes, bool] = {}
        self._hosts: dict[bytes, bool] = {}
        """Those that were asked for, as far as they are short."""

    def headers(self, origin: bytes | None) -> list[tuple[bytes, bytes]]:
        """For an answer to a request from ``origin``; none for an origin that may not read it."""
        if origin is None or not self._allows(origin):
            return []
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", _EXPOSED),
            (b"vary", b"Origin"),
        ]

    def preflight(self, origin: bytes | None, wanted_headers: bytes | None) -> list[tuple[bytes, bytes]]:
        """For the answer to an OPTIONS request, beside ``headers``."""
        if origin is None or not self._allows(origin):
            return []
        return [
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", wanted_headers or b"Authorization, Content-Type, X-Api-Key"),
            (b"access-control-max-age", _DAY_S),
        ]

    def refuses(self, origin: bytes | None, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a browser sends a request with these headers for a page that may not call.

        A page cannot read an answer that was not meant for it, but it can have engines work and models removed: a body
        sent as plain text needs no preflight.
        """
        if origin is None or self._allows(origin) or headers.get(b"sec-fetch-site") == b"same-origin":
            return False
        return origin.partition(b"://")[2] != headers.get(b"host")

    def is_near(self, host: bytes) -> bool:
        """``_is_near``, of whose answers some are remembered."""
        near = self._hosts.get(host)
        if near is None:
            near = self._is_near(host)
            if len(self._hosts) < _REMEMBERED and len(host) <= _LONGEST_HOST:  # the client chooses what stands here
                self._hosts[host] = near
        return near

    def _is_near(self, host: bytes) -> bool:
        """Whether a Host header names this machine, or one of its own network, or a page that may call.

        A page may have its name in the world's DNS point here once it has been loaded; its requests then come to us as
        those of our own pages do, but for this name.
        """
        name = _PORT.sub(b"", host.strip().lower()).rstrip(b".")
        if b"." not in name or name.endswith(_NEAR) or _is_address(name):
            return True
        return self._allows(b"http://" + host) or self._allows(b"https://" + host)

    def _allows(self, origin: bytes) -> bool:
        known = self._known.get(origin)
        if known is None:
            if len(self._known) >= _REMEMBERED:  # the client chooses what is remembered here
                self._known.clear()
            known = self._known[origin] = self._allowed.fullmatch(origin.decode("latin-1").lower()) is not None
        return known


@lru_cache(maxsize=_REMEMBERED)
def _is_address(name: bytes) -> bool:
    try:
        ipaddress.ip_address(name.decode("latin-1"))
    except ValueError:
        return False
    return True
