"""How fast keys may be guessed at the sign-in: counted for each address, over all gateways of a store.

Each try counts before it is looked at, so that a thousand at once are no way around, and one with a right key is taken
back. Addresses share so many counts that they cannot fill the store, and are not kept themselves.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address

from buffer.access import Store
from buffer.keys import tries

MOST_TRIES = 10
WINDOW_S = 60
COUNTS = 4096


class Brake:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._base = tries(store.prefix)

    async def wait_s(self, address: str) -> int:
        """Seconds until a try from this address is let in; 0: this one is. Raises ``StoreUnavailable``."""
        args = [0, _count_of(address), MOST_TRIES, WINDOW_S * 1_000_000]
        wait_us: int = await self._store.script("quota", keys=[self._base], args=args)
        return math.ceil(wait_us / 1e6)

    async def take_back(self, address: str) -> None:
        """The last try was no guess. Raises ``StoreUnavailable``."""
        (result,) = await self._store.eager([("LPOP", f"{self._base}quota:{_count_of(address)}")])
        if isinstance(result, Exception):
            raise result


def _count_of(address: str) -> str:
    """An IPv6 network of 64 bits is one machine's, or one household's."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        whose = address.encode()
    else:
        if isinstance(found, IPv6Address):
            whose = found.ipv4_mapped.packed if found.ipv4_mapped else found.packed[:8]
        else:
            whose = found.packed
    return str(int.from_bytes(blake2b(whose, digest_size=4).digest()) % COUNTS)
