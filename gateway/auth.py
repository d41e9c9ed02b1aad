"""API keys: who may come in, and under which name."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from buffer.setting_values import ApiKey, hashed

_OPEN = frozenset({"/", "/health", "/api/version"})
_ASKS_ITSELF = "/dashboard"


def asks_itself(path: str) -> bool:
    """Whether it is the dashboard's: a browser cannot send a key by itself, so these routes look at keys and sign-ins
    on their own."""
    return path.startswith(_ASKS_ITSELF) and path[len(_ASKS_ITSELF) :][:1] in ("", "/")


@dataclass(frozen=True, slots=True)
class Holder:
    """Whoever sent a request, as far as a key tells."""

    name: str
    trusted: bool
    lanes: frozenset[str]
    models: bool = True
    """It may have models come and go."""
    requests_per_minute: int = 0
    """Most in any minute; 0: no limit."""
    share: int = 0
    """Thousandths of a back end's places that its jobs may have while others wait; 0: no limit."""
    admin: bool = False
    """On the dashboard it sees how requests of other keys stand."""


ANYBODY = Holder("", trusted=True, lanes=frozenset())
"""Where no keys are set: user headers count."""


class Keyring:
    """The configured keys. Only their hashes are kept."""

    def __init__(self, keys: Iterable[ApiKey]) -> None:
        self._holders = [(key.key.encode(), _holder(key)) for key in keys]

    def __bool__(self) -> bool:
        """Whether any key is set."""
        return bool(self._holders)

    def holder(self, path: str, headers: Mapping[bytes, bytes]) -> Holder | None:
        """Who sent a request for ``path``; None if it needs a key and has none that fits."""
        if not self._holders or path in _OPEN or path.startswith("/health/"):
            return ANYBODY
        if asks_itself(path):
            return ANYBODY
        return self.sender(headers)

    def sender(self, headers: Mapping[bytes, bytes]) -> Holder | None:
        """Whose key a request came with; None if it has none that fits."""
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        presented = token.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"").strip()
        return self.whose(presented)

    def whose(self, presented: bytes) -> Holder | None:
        """Who has this key; None if nobody."""
        if not presented:
            return None
        digest = hashed(presented).encode()
        found: Holder | None = None
        for known, holder in self._holders:  # all of them, so that the time taken tells nothing
            if hmac.compare_digest(known, digest):
                found = holder
        return found

    def named(self, name: str) -> list[tuple[bytes, Holder]]:
        """The hashes of the keys of that name, and who has them."""
        return [(known, holder) for known, holder in self._holders if holder.name == name]

    def __len__(self) -> int:
        return len(self._holders)


def _holder(key: ApiKey) -> Holder:
    share = 0 if key.share is None else max(1, round(key.share * 1000))
    rate = key.requests_per_minute or 0
    return Holder(key.name, key.trusted, frozenset(key.lanes), key.models, rate, share, key.admin)
