"""Pure: a conversation without its oldest turns."""

from __future__ import annotations

from collections.abc import Sequence

from buffer.job import Message

SPARE = 0.9
"""Of what fits, how much is used: tokens are guessed from characters, and the answer needs room too."""
OVERHEAD = 16
"""Characters that a message costs beside its words."""


def trim(messages: Sequence[Message], share: float) -> list[Message]:
    """Drops the oldest messages until about ``share`` (0 to 1) of the words is left.

    At least one goes, but never a system message, and never the last one of a user or what follows it. Empty: there is
    nothing to drop.
    """
    last_user = max((at for at, message in enumerate(messages) if message.role == "user"), default=len(messages) - 1)
    sizes = [len(message.text()) + OVERHEAD for message in messages]
    excess = sum(sizes) * (1 - share * SPARE)
    dropped: set[int] = set()
    for at in range(last_user):
        # The results of tools go with the calls that they answer.
        orphan = messages[at].role == "tool" and (at - 1) in dropped
        if messages[at].role == "system" or (excess <= 0 and dropped and not orphan):
            continue
        dropped.add(at)
        excess -= sizes[at]
    return [message for at, message in enumerate(messages) if at not in dropped] if dropped else []
