"""What an error of the store's client means: is the store away, for how long may that be, and how to tell a person."""

from __future__ import annotations

import re
from dataclasses import dataclass

from redis import exceptions as errors


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the store is not to be had now."""

    text: str
    """One sentence."""
    soon: bool = False
    """It is there, and will be ready by itself."""


CLOSED = Trouble("Redis cannot be reached.")
SILENT = Trouble("Redis does not answer in time.")
LOADING = Trouble("Redis is loading its data.", soon=True)
NO_MASTER = Trouble("Sentinel knows no master at the moment.", soon=True)
NO_SERVICE = Trouble("The Sentinels know no service of the name in REDIS_URL.")
NO_SLOTS = Trouble("A part of the Redis Cluster is down.", soon=True)
MOVING = Trouble("A slot of the Redis Cluster is being moved.", soon=True)
CROWDED = Trouble("Redis has reached its limit of clients (maxclients).", soon=True)
FULL = Trouble("Redis is out of memory (maxmemory).")
REPLICA = Trouble("Redis is a read-only replica.")
NO_REPLICAS = Trouble("Redis takes no writes: it has too few replicas (min-replicas-to-write).", soon=True)
NO_DISK = Trouble("Redis takes no writes: it cannot save them to its disk.")
BUSY = Trouble("Redis is busy with somebody's script.", soon=True)
NO_ENTRY = Trouble("Redis refuses the user or the password of REDIS_URL.")
NOT_ALLOWED = Trouble("Redis does not let this user run a command that is needed (docs/redis.md lists them).")
NO_DATABASE = Trouble("Redis has no database of the number in REDIS_URL.")
NO_COMMAND = Trouble("Redis does not know a command that is needed (docs/redis.md tells which Redis will do).")
NO_REDIS = Trouble("What answers there is no Redis.")
SPOILT = Trouble("A key of Doublebuffer holds what it never wrote.")

_BY_WORD = {
    "BUSY": BUSY,
    "CLUSTERDOWN": NO_SLOTS,
    "ASK": MOVING,
    "LOADING": LOADING,
    "MASTERDOWN": REPLICA,
    "MISCONF": NO_DISK,
    "MOVED": MOVING,
    "NOAUTH": NO_ENTRY,
    "NOPERM": NOT_ALLOWED,
    "NOREPLICAS": NO_REPLICAS,
    "OOM": FULL,
    "READONLY": REPLICA,
    "TRYAGAIN": MOVING,
    "UNBLOCKED": REPLICA,
    "WRONGPASS": NO_ENTRY,
}
# At the start; behind what the client puts ahead of it in a pipeline; with a dash, behind what Redis 6.2 puts ahead of
# it in a script.
_WORD = re.compile(rf"(?:^|: (?:-|\(['\"])?)({'|'.join(_BY_WORD)}) ")
_BY_CLASS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], Trouble], ...] = (
    (errors.BusyLoadingError, LOADING),
    (errors.MasterDownError, REPLICA),
    ((errors.AuthenticationError, errors.AuthenticationWrongNumberOfArgsError), NO_ENTRY),
    (errors.NoPermissionError, NOT_ALLOWED),
    (errors.OutOfMemoryError, FULL),
    (errors.ReadOnlyError, REPLICA),
    ((errors.AskError, errors.TryAgainError), MOVING),  # which Moved is one of
    ((errors.ClusterError, errors.RedisClusterException), NO_SLOTS),
    ((errors.TimeoutError, TimeoutError), SILENT),
    (errors.InvalidResponse, NO_REDIS),
    ((errors.ConnectionError, OSError), CLOSED),
)
_BY_WORDS = (
    # Of a connection that could not be had at all.
    ("max number of clients", CROWDED),
    ("No master found", NO_MASTER),
    ("No such service", NO_SERVICE),
    ("DB index", NO_DATABASE),  # is out of range; of older ones: invalid
    ("SELECT is not allowed in cluster mode", NO_DATABASE),
    # Of a script that begun while its slot was on its way to another node.
    ("non local key in a cluster node", MOVING),
    ("can't run this command or subcommand", NOT_ALLOWED),  # Redis 6.2, in a script
    ("unknown command", NO_COMMAND),
    ("Unknown Redis command", NO_COMMAND),  # in a script
)

CAUGHT = (errors.RedisError, errors.RedisClusterException, OSError)
"""Whatever the client may raise."""


class StoreUnavailable(Exception):  # noqa: N818  (a state of things, not a mistake)
    """The store cannot be reached, or takes no writes now. Whether the command was carried out is not known."""

    def __init__(self, text: str = CLOSED.text, *, soon: bool = False) -> None:
        super().__init__(text)
        self.soon = soon
        """It is there, and will be ready by itself: loading its data, between two masters."""


def trouble(error: BaseException) -> Trouble | None:
    """What an error of the client tells of the store; None: the command was wrong."""
    text = str(error)
    for words, found in _BY_WORDS:
        if words in text:
            return found
    for kind, found in _BY_CLASS:
        if isinstance(error, kind):
            return found
    word = _WORD.search(text) if isinstance(error, errors.ResponseError) else None
    return _BY_WORD[word[1]] if word else None


def unavailable(found: Trouble) -> StoreUnavailable:
    return StoreUnavailable(found.text, soon=found.soon)


def moved(error: object) -> bool:
    """Whether another node of a Cluster has the slot now."""
    return isinstance(error, errors.MovedError) or (
        isinstance(error, errors.ResponseError) and str(error).startswith("MOVED ")
    )


def spoilt(error: object, *, script: bool) -> bool:
    """Whether a command failed at what the store holds, rather than at the store. A script of ours that is in error can
    only have met what no script of ours wrote."""
    if not isinstance(error, errors.ResponseError) or isinstance(error, errors.NoScriptError):
        return False
    return script or "WRONGTYPE" in str(error)
