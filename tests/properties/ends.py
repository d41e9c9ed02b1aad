"""When keys with a short life end, in virtual time: Redis' own clock is not ours. There, they live as long as the test
runs.
"""

from __future__ import annotations

from tests.properties.server import Server
from tests.properties.virtual import now_us

SECOND = 1_000_000


class Ends:
    """``base``: what the names of all keys begin with."""

    def __init__(self, server: Server, base: str) -> None:
        self._server, self._base = server, base
        self.at: dict[tuple[str, str], int] = {}
        """Kind and name of a key → when it ends."""

    def after(self, kind: str, name: str, seconds: int) -> None:
        """Its life begins anew."""
        self.at[kind, name] = now_us() + seconds * SECOND
        self._server.ask([("EXPIRE", self._key(kind, name), 36_000)])

    def expire(self) -> None:
        """Whatever is to be gone by now is."""
        now = now_us()
        for kind, name in [one for one, at in self.at.items() if at < now]:
            self._server.ask([("DEL", self._key(kind, name))])
            if kind == "job":
                self.at[kind, name] = now + 10**12
            else:
                del self.at[kind, name]

    def _key(self, kind: str, name: str) -> str:
        return f"{self._base}{kind}:{name}" if name else f"{self._base}{kind}"
