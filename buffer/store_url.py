"""``REDIS_URL``, checked for what no server has to be asked about. Pure."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

REDIS_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "redis+cluster")


def check_redis_url(value: object) -> object:
    """A URL of a scheme we speak, None for empty text. Raises ``ValueError`` with a clause that holds no password."""
    if not isinstance(value, str):
        return value
    url = value.strip()
    if not url:
        return None
    scheme, found, _ = url.partition("://")
    if not found or scheme.lower() not in REDIS_SCHEMES:
        raise ValueError(f"a URL begins with one of {', '.join(f'{scheme}://' for scheme in REDIS_SCHEMES)}")
    parts = _split(url)
    if parts.scheme != "unix" and "@" in parts.path:
        raise ValueError("in a user or a password, @ / ? and # are written %40 %2F %3F and %23")
    if parts.scheme in ("redis", "rediss"):
        _check_single(parts)
    elif parts.scheme == "redis+cluster" and parts.path not in ("", "/", "/0"):
        raise ValueError("a Redis Cluster has no database but number 0")
    return url


def _check_single(parts: SplitResult) -> None:
    try:
        parts.port  # noqa: B018 - reading it is what checks it
    except ValueError:
        raise ValueError("it has a port that is none") from None
    # redis-py would take 0 for a word, and 12 for 1/2.
    if not re.fullmatch("/?|/[0-9]{1,9}/?", parts.path):
        raise ValueError("what comes behind the host is the number of a database, as in redis://localhost:6379/0")


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # whose text may hold all of it
        raise ValueError("it is no URL") from None
