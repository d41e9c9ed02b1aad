"""Words to the worker that runs a job, in its ``ctl`` stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast

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


def read_control(fields: Mapping[bytes, bytes]) -> Control | None:
    """None: it is none of ours."""
    try:
        kind, id = fields.get(b"k", b"").decode(), fields.get(b"id", b"").decode()
        fence, upto = int(fields.get(b"f", b"0")), int(fields.get(b"u", b"0"))
    except ValueError:
        return None
    return Control(cast(Any, kind), id, fence, upto) if kind in _KINDS else None
