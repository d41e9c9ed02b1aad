"""What comes in at a gateway's inbox: frames, taken apart and handed to the followers of their jobs."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping

import msgspec

from buffer.access import StoreUnavailable
from buffer.fold import END_KINDS
from buffer.follower import Follower
from buffer.frames import unpack
from buffer.lanes import Lanes
from buffer.timing import Backoff

log = logging.getLogger("doublebuffer.buffer")

READ_AT_ONCE = 500
READ_BLOCK_S = 30.0
TRIM_AT = 64
"""Entries that were read, at which they are dropped; fewer,"""
TRIM_BYTES = 256 * 1024
"""when they take so much of the store's memory, or"""
TRIM_AFTER_S = 20.0
"""when the first of them was read so long ago: a minute after its end, nothing of an answer may be left."""
STRAYS = 16384


class Incoming:
    """``followers`` by job; ``cancel``: has a job cancelled whose answer nobody follows."""

    def __init__(self, lanes: Lanes, followers: Mapping[str, Follower], cancel: Callable[[str], None]) -> None:
        self._lanes = lanes
        self._followers = followers
        self._cancel = cancel
        self._strays: OrderedDict[str, None] = OrderedDict()

    async def read(self, name: str, on_back: Callable[[], None]) -> None:
        """Reads an inbox until cancelled. ``on_back``: called when the store answers again."""
        if not name:
            return
        key = self._lanes.keys.inbox(name)
        last = "0-0"
        kept, kept_bytes, since_at = 0, 0, 0.0
        clock = asyncio.get_running_loop().time
        backoff = Backoff()
        away = False
        while True:
            # Not each time: it costs as much as a read.
            left_s = since_at + TRIM_AFTER_S - clock() if kept else READ_BLOCK_S
            trim = {key: last} if kept >= TRIM_AT or kept_bytes >= TRIM_BYTES or left_s <= 0 else None
            # The first read after an outage waits for nothing: an inbox that the store has lost would be waited for in
            # vain, and its jobs with it.
            block_s = 0.0 if away else READ_BLOCK_S if trim else min(READ_BLOCK_S, left_s)
            try:
                got = await self._lanes.store.read_streams({key: last}, block_s, READ_AT_ONCE, trim=trim)
            except StoreUnavailable:
                away = True
                await backoff.wait()
                continue
            if away:
                away = False
                backoff.reset()
                on_back()
            if trim:
                kept = kept_bytes = 0
            for _, entries in got:
                since_at = since_at if kept else clock()
                kept += len(entries)
                for entry_id, fields in entries:
                    last = entry_id
                    kept_bytes += sum(map(len, fields.values()))
                    self._take(fields)

    def ignore(self, id: str) -> None:
        """Nobody follows this job any more, and it has been seen to."""
        self._strays[id] = None
        if len(self._strays) > STRAYS:
            self._strays.popitem(last=False)

    def _take(self, fields: Mapping[bytes, bytes]) -> None:
        try:
            parts = unpack(fields)
        except (msgspec.MsgspecError, ValueError, KeyError):
            log.error("A frame that cannot be read was skipped")
            return
        for part in parts:
            follower = self._followers.get(part.id)
            if follower is not None:
                follower.take(part)
            elif part.kind not in END_KINDS and part.id not in self._strays:
                self.ignore(part.id)
                self._cancel(part.id)
