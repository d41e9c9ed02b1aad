"""Words to a worker, in its ``ctl`` stream: of jobs that it runs, and jobs that go to it by its standing order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast

from buffer.records import Granted

_KINDS = ("cancel", "pause", "go", "look", "piece", "yield")


class Control(NamedTuple):
    """From a gateway; ``look`` is to all workers. ``piece`` and ``yield`` come from one that pulled for the same back
    end: a person's job needs the place of this one."""

    kind: Literal["cancel", "pause", "go", "look", "piece", "yield"]
    id: str
    """The job's; for ``look``, the name of a back end to look at now."""
    fence: int
    upto: int = 0
    """With ``piece``: up to which token its prompt may be read; 0: all of it, answer included."""


class Handed(NamedTuple):
    """A job that went to this worker as it was submitted, by its standing order for ``backend``."""

    backend: str
    job: Granted
    body: bytes
    """What was asked; empty: it is large, and has to be fetched."""


def read_control(fields: Mapping[bytes, bytes]) -> Control | Handed | None:
    """None: it is none of ours."""
    try:
        if fields.get(b"k") == b"grant":
            *parts, body = (fields[b"%d" % (i + 1)] for i in range(len(fields) - 2))
            return Handed(fields[b"b"].decode(), Granted.read(parts), body)
        kind, id = fields.get(b"k", b"").decode(), fields.get(b"id", b"").decode()
        fence, upto = int(fields.get(b"f", b"0")), int(fields.get(b"u", b"0"))
    except (ValueError, KeyError):
        return None
    return Control(cast(Any, kind), id, fence, upto) if kind in _KINDS else None
