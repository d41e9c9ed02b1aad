"""What of prompts the engines have read, and what is being read: where a conversation is at home, and whose beginning
another job is reading already."""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct

from gateway.models import Model
from policy.placing import SHARED_TOKENS, near
from policy.prefix import Chain, PrefixIndex

SHARING = frozenset({"vllm"})
"""Kinds of engines whose requests use what others beside them have read."""
MOST_LEADERS = 1024
"""Jobs whose prompts are being read, as far as anybody remembers."""


class Known(Struct, frozen=True):
    """What is known of a prompt before it is sent."""

    tokens: int = 0
    """Of it that an engine has read."""
    near: str = ""
    """The back end that has, where that is worth going there; empty: none, or all alike."""
    behind: str = ""
    """The job that is about to read a good part of it for the first time; empty: none."""


_NOTHING = Known()


class Beginnings:
    """Of the prompts that went through this gateway."""

    def __init__(self) -> None:
        self._index = PrefixIndex()
        self._leaders: OrderedDict[str, list[bytes]] = OrderedDict()
        """Job → beginnings that it is the first to read."""
        self._reading: dict[bytes, str] = {}

    def of(self, links: Chain, model: Model) -> Known:
        """Changes nothing, so that a thread may ask."""
        able = model.able
        held = self._index.held(links)
        tokens = max([held.get(name, 0) for name in able], default=0) if held else 0
        behind = ""
        if self._reading and links and links[-1].tokens - tokens >= SHARED_TOKENS:
            behind = self._behind(links, tokens) if able and SHARING.issuperset(able.values()) else ""
        if not held and not behind:
            return _NOTHING
        return Known(tokens, near(held, able) if len(able) > 1 else "", behind)

    def _behind(self, links: Chain, known: int) -> str:
        """The job that reads enough of it. Others that it shares more with wait for that one too."""
        for link in links:
            if link.tokens - known >= SHARED_TOKENS:
                return self._reading.get(link.digest, "")
        return ""

    def sent(self, job_id: str, links: Chain) -> None:
        """A job is on its way. Of what no other is reading it is the first."""
        if not links or links[-1].tokens < SHARED_TOKENS:
            return
        own = [link.digest for link in links if link.digest not in self._reading]
        self._reading.update(dict.fromkeys(own, job_id))
        self._leaders[job_id] = own
        if len(self._leaders) > MOST_LEADERS:
            self.gone(next(iter(self._leaders)))

    def read(self, job_id: str, links: Chain, backend: str) -> None:
        """Its first piece came from there: that engine has read the prompt."""
        self._index.add(links, backend)
        if job_id in self._leaders:
            self.gone(job_id)

    def gone(self, job_id: str) -> None:
        """Nobody needs to wait for it any more."""
        for digest in self._leaders.pop(job_id, ()):
            self._reading.pop(digest, None)
