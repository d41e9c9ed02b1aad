"""Who may come in, decided before anything of a request is read but its headers."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from buffer.job import Failure
from buffer.settings import Settings
from buffer.store import Store
from gateway.auth import Holder, Keyring
from gateway.cors import Cors
from gateway.quotas import Quotas
from gateway.room import Room

UNAUTHORIZED = Failure("A valid API key is needed.", 401, "invalid_api_key")
_FOREIGN = Failure("Pages of this origin may not call here; DOUBLEBUFFER_CORS_ORIGINS says which may.", 403, "")
_NO_NAME_OF_OURS = Failure(
    "Doublebuffer is not called so here; add http://<this name> to DOUBLEBUFFER_CORS_ORIGINS if it should be.", 403, ""
)
_NO_MODELS = Failure("This key may use models, and not bring or remove any.", 403, "permission_denied")
_MOVES_MODELS = frozenset({"/api/pull", "/api/push", "/api/create", "/api/copy", "/api/delete"})
_HARMLESS = frozenset({"GET", "HEAD"})


class Door:
    """Keys, their rates, the pages of other origins, and the room for what comes in."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.cors = Cors(settings.cors_origins)
        self._keyring = Keyring(settings.api_keys)
        self._quotas = Quotas(store)
        self.room = Room(max(settings.max_held_bytes, settings.max_body_bytes))
        self._near = _is_loopback(settings.host)
        self.holder = self._keyring.holder
        """Who sent a request; None if it needs a key and has none that fits."""

    def refuses(self, holder: Holder | None, method: str, path: str, headers: Mapping[bytes, bytes]) -> Failure | None:
        """Why a request may not come in; None: it may, if its key has no rate, or ``over`` does not refuse it."""
        if holder is None:
            return UNAUTHORIZED
        if self._keyring:
            if not holder.models and (path in _MOVES_MODELS or path.startswith("/api/blobs/")):
                return _NO_MODELS
            return None
        if self._near and not self.cors.is_near(headers.get(b"host", b"")):
            return _NO_NAME_OF_OURS
        origin = headers.get(b"origin")
        foreign = origin is not None and method not in _HARMLESS and self.cors.refuses(origin, headers)
        return _FOREIGN if foreign else None

    def over(self, holder: Holder, method: str) -> Awaitable[Failure | None]:
        """Why a request with a key that has a rate may not come in now; else it is counted."""
        return self._quotas.refuses(holder, method)


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host.startswith("127.") or host.strip("[]") == "::1"
