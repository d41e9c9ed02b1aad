"""What an idle worker waits for, as a test's own worker does."""

from __future__ import annotations

from buffer.job import LANES
from buffer.lanes import Lanes


class Doorbell:
    """Made before a pull, so that nothing can come between that and the wait."""

    def __init__(self, lanes: Lanes, read: dict[str, str]) -> None:
        self._lanes = lanes
        self._read = read

    @classmethod
    async def now(cls, lanes: Lanes) -> Doorbell:
        """Rings for what comes from now on."""
        keys = [*(lanes.keys.jobs(lane) for lane in LANES), lanes.keys.bell]
        found = await lanes.store.exchange([("XREVRANGE", key, "+", "-", "COUNT", 1) for key in keys])
        return cls(lanes, {key: last[0][0].decode() if last else "0-0" for key, last in zip(keys, found, strict=True)})

    async def rings(self, block_s: float = 20.0) -> bool:
        """False: nothing came in so long."""
        news = await self._lanes.store.read_streams(self._read, block_s, 100)
        self._read |= {key: entries[-1][0] for key, entries in news}
        return bool(news)
