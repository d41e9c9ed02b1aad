"""What of a prompt an engine has probably read before: earlier turns of a chat, a shared system prompt, a shared list
of tools. Pure."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from policy.estimate import BYTES_PER_TOKEN, MESSAGE_TOKENS

BLOCK_BYTES: Final = 2048
"""Long messages are cut so that two which only begin alike share their beginning."""


class Link(NamedTuple):
    """A beginning of a prompt."""

    digest: bytes
    """Of everything up to here; 12 bytes."""
    tokens: int
    """Of everything up to here, estimated."""


Chain = tuple[Link, ...]
"""The beginnings of one prompt, shortest first."""


class Mixed(NamedTuple):
    """A piece of a prompt that is not all text."""

    data: bytes
    """Its text, and what tells one picture or sound from the other."""
    other: int = 0
    """Tokens of what is no text."""
    tokens_per_byte: float | None = None
    """None: those of the model's text."""


Part = bytes | Mixed
"""A message, or all tools, in any stable form."""


def chain(
    seed: bytes, parts: Iterable[Part], *, after: Chain = (), tokens_per_byte: float = 1 / BYTES_PER_TOKEN
) -> Chain:
    """The beginnings of a prompt made of ``parts``, tools first, then the messages.

    ``seed`` names what must be the same for a cache to serve: the model. ``after`` goes on from another chain, such as
    that of the request whose answer is now a part of it. ``tokens_per_byte``: of text; it changes no digest.
    """
    digest, tokens = (after[-1].digest, after[-1].tokens) if after else (_seed(seed), 0)
    links = list(after)
    for part in parts:
        tokens += MESSAGE_TOKENS
        per_byte = tokens_per_byte
        if isinstance(part, Mixed):
            data, other, known = part
            tokens += other
            per_byte = tokens_per_byte if known is None else known
        else:
            data = part
        for start in range(0, len(data) or 1, BLOCK_BYTES):
            block = data[start : start + BLOCK_BYTES]
            # The mark keeps "ab" + "c" and "a" + "bc" apart: a part's first block is another thing than its second.
            digest = _digest(digest + (b"+" if start else b"|") + block)
            tokens += math.ceil(len(block) * per_byte)
            links.append(Link(digest, tokens))
    return tuple(links)


@lru_cache(maxsize=1024)
def _seed(seed: bytes) -> bytes:
    return _digest(seed)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=12).digest()


class PrefixIndex:
    """Beginnings read lately and where, the least recently used forgotten first, bounded by number and by tokens."""

    def __init__(self, *, most_links: int = 50_000, most_tokens: int = 2_000_000) -> None:
        self._most_links = most_links
        self._most_tokens = most_tokens
        self._links: OrderedDict[bytes, tuple[int, tuple[str, ...]]] = OrderedDict()
        self._tokens = 0

    def __len__(self) -> int:
        return len(self._links)

    def held(self, links: Chain) -> dict[str, int]:
        """Back end → tokens of the longest beginning that it has read.

        A cached beginning needs all that came before it: whoever has read a link has read those before it, and these
        are forgotten later.
        """
        tokens: dict[str, int] = {}
        for link in links:
            found = self._links.get(link.digest)
            if found is None:
                break
            tokens.update(dict.fromkeys(found[1], link.tokens))
        return tokens

    def known(self, links: Chain) -> int:
        """Tokens of the longest beginning that any back end has; 0 for none."""
        return max(self.held(links).values(), default=0)

    def add(self, links: Chain, backend: str = "") -> None:
        """A prompt went to an engine. Later beginnings are forgotten before earlier ones, which more prompts share."""
        before = 0
        own: list[tuple[bytes, int]] = []
        for link in links:
            own.append((link.digest, link.tokens - before))
            before = link.tokens
        for digest, tokens in reversed(own):
            _, readers = self._links.get(digest, (0, ()))
            if not readers:
                self._tokens += tokens
            if backend not in readers:
                self._links[digest] = tokens, (*readers, backend)
            self._links.move_to_end(digest)
        while self._links and (len(self._links) > self._most_links or self._tokens > self._most_tokens):
            self._tokens -= self._links.popitem(last=False)[1][0]
