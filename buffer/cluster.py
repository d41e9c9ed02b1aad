"""A Redis Cluster. All keys of a pool have one hash tag, so a pool lives on one node, and moves as a whole.

A slot that is on its way to another node is not followed there: our scripts build their keys' names themselves, and on
a node that has half of them they would take the other half for lost. The pool is away until the slot has arrived.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from redis.crc import key_slot

from buffer.access import COMMAND_TIMEOUT_S, Command, Store, key_of
from buffer.link import Link
from buffer.reach import LOOK_S
from buffer.trouble import NO_SLOTS, StoreUnavailable, Trouble, moved, trouble, unavailable
from buffer.wire import Then, Wire

log = logging.getLogger("doublebuffer.buffer")

LEARN_EVERY_S = 0.2

Place = tuple[str, int]
"""Host and port of a node."""


class ClusterStore(Store):
    """``seeds``: nodes to begin with; ``open_link`` makes the connections to one."""

    def __init__(self, seeds: Sequence[Place], open_link: Callable[[Place], Link], *, prefix: str) -> None:
        self._seeds = list(seeds)
        self._open_link = open_link
        self._links: dict[Place, Link] = {}
        self._ranges: list[tuple[int, int, Place]] = []
        self._stale = True
        self._learned_at = float("-inf")
        self._learning = asyncio.Lock()
        super().__init__(self._at(self._seeds[0]), prefix=prefix)

    # --- which node

    def _at(self, place: Place) -> Link:
        link = self._links.get(place)
        if link is None:
            link = self._links[place] = self._open_link(place)
        return link

    def _slot(self, key: str) -> int:
        return key_slot((key or f"{self.prefix}:{{default}}:").encode())

    def _owner(self, slot: int) -> Link | None:
        return next((self._at(place) for first, last, place in self._ranges if first <= slot <= last), None)

    def _link_of(self, key: str) -> Link:
        return self._owner(self._slot(key)) or self._link

    def away(self, key: str = "") -> Trouble | None:
        return self._link_of(key).reach.away

    async def _link_for(self, slot: int) -> Link:
        """Raises ``StoreUnavailable``."""
        if self._stale:
            await self._learn()
        link = self._owner(slot)
        if link is None:
            self._stale = True
            raise unavailable(NO_SLOTS)
        return link

    async def _learn(self) -> None:
        """Asks one node after another who has what, those that are known to be away last."""
        async with self._learning:
            now = asyncio.get_running_loop().time()
            if not self._stale or now - self._learned_at < LEARN_EVERY_S:
                return
            self._learned_at = now
            told: StoreUnavailable | None = None
            places = list(dict.fromkeys([place for _, _, place in self._ranges] + self._seeds))
            for place in sorted(places, key=lambda one: self._at(one).reach.away is not None):
                try:
                    ranges = await self._ask(place)
                except StoreUnavailable as error:
                    told = error
                    continue
                self._take(ranges)
                return
            raise told or unavailable(NO_SLOTS)

    async def _ask(self, place: Place) -> list[tuple[int, int, Place]]:
        link = self._at(place)
        (reply,) = await link.run([("CLUSTER", "SLOTS")], within_s=LOOK_S, again=True, patient=False)
        if isinstance(reply, Exception):
            found = trouble(reply)
            raise unavailable(found) if found else StoreUnavailable("The node of REDIS_URL is not one of a Cluster.")
        return [
            (int(first), int(last), ((host or b"").decode() or place[0], int(port)))
            for first, last, (host, port, *_), *_ in reply
        ]

    def _take(self, ranges: list[tuple[int, int, Place]]) -> None:
        before = {place for _, _, place in self._ranges}
        self._ranges = ranges
        self._stale = False
        for place in before - {place for _, _, place in ranges}:
            # It has nothing any more: whoever waits there waits in vain.
            self._at(place).reach.hurry()

    # --- commands

    def tell(self, commands: Sequence[Command], then: Then) -> bool:
        return not self._stale and self._link_of(key_of(commands[0])).tell(commands, then)

    async def pipeline(
        self, commands: Sequence[Command], *, again: bool, patient: bool, within_s: float = COMMAND_TIMEOUT_S
    ) -> list[Any]:
        results: list[Any] = [None] * len(commands)
        by_slot: dict[int, list[int]] = {}
        for i, command in enumerate(commands):
            by_slot.setdefault(self._slot(key_of(command)), []).append(i)
        for slot, some in by_slot.items():
            found = await self._run(slot, [commands[i] for i in some], again, patient, within_s)
            for i, result in zip(some, found, strict=True):
                results[i] = result
        return results

    async def _run(
        self, slot: int, commands: Sequence[Command], again: bool, patient: bool, within_s: float
    ) -> list[Any]:
        """Commands on one node, in order. What has moved is sent after it, in order too."""
        link = await self._link_for(slot)
        try:
            results = await link.run(commands, within_s=within_s, again=again, patient=patient)
            gone = [i for i, result in enumerate(results) if moved(result)]
            if gone:
                self._stale = True
                link = await self._link_for(slot)
                rest = await link.run([commands[i] for i in gone], within_s=within_s, again=again, patient=patient)
                for i, result in zip(gone, rest, strict=True):
                    results[i] = result
        except StoreUnavailable:
            self._stale = True
            raise
        return results

    async def _beside(self, like: Command, commands: Sequence[Command], *, again: bool, within_s: float) -> list[Any]:
        return await self._run(self._slot(key_of(like)), commands, again, False, within_s)

    async def _mended(self, command: Command, error: Exception, began_at: float) -> bool:
        if trouble(error) is not None:
            self._stale = True
        return await super()._mended(command, error, began_at)

    async def _read(self, commands: Sequence[Command], block_s: float) -> Any:
        link = await self._link_for(self._slot(key_of(commands[-1])))
        try:
            return await link.read(commands, block_s)
        except StoreUnavailable:
            self._stale = True
            raise

    async def _stay(self, command: Command) -> tuple[Wire, Any]:
        link = await self._link_for(self._slot(key_of(command)))
        try:
            return await link.stay(command)
        except StoreUnavailable:
            self._stale = True
            raise

    async def aclose(self) -> None:
        for link in self._links.values():
            await link.aclose()
