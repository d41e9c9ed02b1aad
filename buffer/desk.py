"""What a follower asks its inbox for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from buffer.follower import Follower

Want = Literal["catch_up", "requeue", "settle", "cancel", "forget", "pause", "go"]
"""``catch_up``: read the reply key. ``requeue``: hand the job of a dead worker on. ``settle``: end it as the follower
did.
``forget``: its client has left, or it has ended after that. ``pause``, ``go``: tell its worker to stop or go on reading
its engine."""


class Desk(Protocol):
    """Whoever does at the store what a follower finds to be done."""

    def want(self, follower: Follower, what: Want) -> None:
        """Returns at once; it is done soon, and once, however often it is asked for meanwhile."""
        ...
