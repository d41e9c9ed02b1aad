"""How chats are asked of an engine, beside their words: worked out once for all that are asked alike."""

from __future__ import annotations

import msgspec

from backends.render_openai import Rendered, manner
from backends.thinking import Plan, continues, plan
from buffer.backend import Kind
from buffer.job import Chat
from buffer.model_records import Families

MOST_KNOWN = 256
MOST_BYTES = 8192
"""Of what is kept for one; beyond that, it is tools and schemas above all."""

_Asked = tuple[str, bytes, bool, bool, bool, int]
_encode = msgspec.msgpack.Encoder().encode


class Manners:
    """Of one back end."""

    def __init__(self, kind: Kind, families: Families) -> None:
        self._kind: Kind = kind
        self._families = families
        self._known: dict[_Asked, tuple[Plan, Rendered]] = {}

    def of(self, chat: Chat, upstream_model: str, *, parses: bool, context: int) -> tuple[Plan, Rendered]:
        """As ``plan`` and ``manner``; neither is to be changed. Raises ``BackendError``."""
        goes_on = continues(chat)
        thought = goes_on and bool(chat.messages[-1].reasoning)
        rest = _encode(msgspec.structs.replace(chat, messages=[]))
        asked = (upstream_model, rest, goes_on, thought, parses, context)
        known = self._known.get(asked)
        if known is None:
            chosen = plan(chat, upstream_model, self._kind, parses=parses, families=self._families)
            known = chosen, manner(chat, self._kind, chosen, context=context)
            if len(rest) <= MOST_BYTES:
                if len(self._known) >= MOST_KNOWN:  # clients choose what they ask
                    self._known.clear()
                self._known[asked] = known
        return known
