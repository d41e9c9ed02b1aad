"""The store that gateway and worker share: from a URL to an open one."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import redis.asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from buffer.access import Store, StoreUnavailable
from buffer.cluster import ClusterStore, Place
from buffer.embedded import EmbeddedStore
from buffer.link import Link
from buffer.sentinel import MasterConnection, Sentinels
from buffer.wires import Wires

__all__ = ["EmbeddedStore", "Store", "StoreUnavailable", "open_store", "sentinel_place"]

CONNECT_TIMEOUT_S = 3.0


async def open_store(redis_url: str | None, *, prefix: str = "doublebuffer") -> Store:
    """Opens the store at ``redis_url``; None: an embedded one, new and empty. Connects at the first command.

    Schemes: ``redis``, ``rediss``, ``unix``, ``redis+sentinel://host:port,host:port/service/db``,
    ``redis+cluster://host:port,host:port``.
    Raises ``ValueError`` with one sentence on another URL.
    """
    if redis_url is None:
        from fakeredis import FakeAsyncRedis, FakeServer

        return EmbeddedStore(FakeAsyncRedis(server=FakeServer(), protocol=2, socket_timeout=None), prefix=prefix)
    scheme = redis_url.partition("://")[0]
    if scheme in ("redis", "rediss", "unix"):
        return Store(_single(redis_url), prefix=prefix)
    if scheme == "redis+sentinel":
        return _sentinel(redis_url, prefix)
    if scheme == "redis+cluster":
        return _cluster(redis_url, prefix)
    raise ValueError("A store's URL begins with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://.")


def _options() -> dict[str, Any]:
    # Version 2 of the protocol: the same replies from every server. No retries: not every script may run twice.
    # The store itself limits the time of each command: redis-py would cut blocking reads, and up to Python 3.11 a
    # cancellation may get lost in the way it limits a send.
    return {
        "protocol": 2,
        "socket_timeout": None,
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_keepalive": True,
        "retry": Retry(NoBackoff(), 0),
    }


def _client(**options: Any) -> Any:
    return aioredis.Redis.from_pool(aioredis.BlockingConnectionPool(**_options(), **options))


def _single(url: str) -> Link:
    options = _options()
    if url.startswith("unix:"):
        del options["socket_keepalive"]
    pool = aioredis.BlockingConnectionPool.from_url(url, **options)
    try:
        pool.connection_class(**pool.connection_kwargs)
    except TypeError:
        raise ValueError("A store's URL has an option behind its ? that is none.") from None
    split = urlsplit(url)
    return _link(aioredis.Redis.from_pool(pool), split.netloc.rpartition("@")[2] or split.path)


def _link(client: Any, name: str, **more: Any) -> Link:
    return Link(client, Wires(client), name, **more)


class SentinelPlace(NamedTuple):
    """Where a master is that Sentinels watch over."""

    hosts: list[tuple[str, int]]
    """Of the Sentinels."""
    service: str
    db: int
    login: dict[str, str | None]
    """For the Sentinels and for the master."""


def sentinel_place(url: str) -> SentinelPlace:
    """What a ``redis+sentinel://`` URL says. Raises ``ValueError``."""
    hosts, user, password, path = _parts(url, default_port=26379)
    service, _, db = path.partition("/")
    if not service or not (db or "0").isdigit():
        raise ValueError("A Sentinel URL reads redis+sentinel://host:port,host:port/service/db.")
    return SentinelPlace(hosts, service, int(db or 0), {"username": user, "password": password})


def _sentinel(url: str, prefix: str) -> Store:
    hosts, service, db, login = sentinel_place(url)
    sentinels = Sentinels(hosts, service, {**_options(), **login})

    client = _client(connection_class=MasterConnection, sentinels=sentinels, db=db, **login)
    link = _link(client, f"Sentinel's {service}", moved=sentinels.moved, close=sentinels.aclose)
    return Store(link, prefix=prefix)


def _cluster(url: str, prefix: str) -> Store:
    hosts, user, password, _ = _parts(url, default_port=6379)

    def link(place: Place) -> Link:
        host, port = place
        login = {"host": host, "port": port, "username": user, "password": password}
        return _link(_client(**login), f"{host}:{port}")

    return ClusterStore(hosts, link, prefix=prefix)


def _parts(url: str, *, default_port: int) -> tuple[list[tuple[str, int]], str | None, str | None, str]:
    split = urlsplit(url)
    login, _, places = split.netloc.rpartition("@")
    user, _, password = login.partition(":")
    hosts: list[tuple[str, int]] = []
    for place in places.split(","):
        host, _, port = place.rpartition(":") if ":" in place.rpartition("]")[2] else (place, "", "")
        if not host or not (port or "0").isdigit():
            raise ValueError("A store's hosts read host:port,host:port.")
        hosts.append((host.strip("[]"), int(port or default_port)))
    return hosts, unquote(user) or None, unquote(password) or None, split.path.strip("/")
