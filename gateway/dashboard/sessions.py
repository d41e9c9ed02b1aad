"""Sign-ins to the dashboard: a cookie that any gateway on the same store can check, and none can make but they.

A browser cannot send a key of its own accord, so whoever has one trades it for a cookie. The cookie holds no key: it
names one, and is signed with a secret that only the store and the gateways have. It ends with its key, or after a day.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping

from buffer.access import Command, Store
from buffer.keys import signing
from buffer.setting_values import hashed
from gateway.auth import ANYBODY, Holder, Keyring

COOKIE = "doublebuffer_dashboard"
SIGNED_IN_S = 86_400
_SECRET_S = 30 * 86_400
"""Begun anew with each sign-in."""
_READ_AGAIN_S = 5.0
"""How long a secret is believed to be the store's, when a cookie does not fit it."""
_UNTIL = re.compile("[0-9]{1,15}")


class Sessions:
    """``clock``: seconds since 1970."""

    def __init__(self, store: Store, keyring: Keyring, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._keyring = keyring
        self._clock = clock
        self._secret = b""
        self._read_at = float("-inf")

    @property
    def needed(self) -> bool:
        """Whether keys are set."""
        return bool(self._keyring)

    async def viewer(self, headers: Mapping[bytes, bytes]) -> Holder | None:
        """Who looks: by a key of the request, else by its cookie. None: nobody who may.

        Raises ``StoreUnavailable`` where a cookie cannot be checked.
        """
        if not self.needed:
            return ANYBODY
        found = self._keyring.sender(headers)
        if found is not None:
            return found
        token = _cookie(headers.get(b"cookie", b""))
        if not token:
            return None
        found = self._check(token)
        if found is None and self._clock() - self._read_at > _READ_AGAIN_S:
            await self._read(keep=False)
            found = self._check(token)
        return found

    def sees_all(self, holder: Holder) -> bool:
        """Whether somebody may see how the requests of others stand: an admin; everybody, where no keys are set; and
        whoever has the only key, for then all of them are his."""
        return holder is ANYBODY or holder.admin or len(self._keyring) == 1

    async def sign_in(self, key: str) -> str | None:
        """A new cookie's value; None: nobody has this key. Raises ``StoreUnavailable``."""
        presented = key.strip().encode()
        holder = self._keyring.whose(presented)
        if holder is None:
            return None
        await self._read(keep=True)
        until = int(self._clock()) + SIGNED_IN_S
        digest = hashed(presented).encode()
        name = base64.urlsafe_b64encode(holder.name.encode()).decode().rstrip("=")
        return f"{until}.{name}.{self._sign(until, holder.name, digest)}"

    def _check(self, token: str) -> Holder | None:
        until, _, rest = token.partition(".")
        name, _, mac = rest.partition(".")
        if not self._secret or _UNTIL.fullmatch(until) is None or int(until) <= self._clock():
            return None
        try:
            name = base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
        except ValueError:
            return None
        for digest, holder in self._keyring.named(name):
            # As bytes: of text, other letters than ASCII's are refused with an exception.
            if hmac.compare_digest(self._sign(int(until), name, digest).encode(), mac.encode()):
                return holder
        return None

    def _sign(self, until: int, name: str, digest: bytes) -> str:
        """``digest``: of the key, so that a sign-in is over when its key is."""
        return hmac.new(self._secret, f"{until}.{name}.".encode() + digest, "sha256").hexdigest()

    async def _read(self, *, keep: bool) -> None:
        """The secret of all gateways. ``keep``: it is made where there is none, and lives on."""
        key = signing(self._store.prefix)
        commands: list[Command] = [("GET", key)]
        if keep:
            made = self._secret or secrets.token_bytes(32)
            commands = [("SET", key, made, "NX", "EX", _SECRET_S), ("EXPIRE", key, _SECRET_S), ("GET", key)]
        results = await self._store.eager(commands)
        for result in results:
            if isinstance(result, Exception):
                raise result
        self._read_at = self._clock()
        self._secret = results[-1] or self._secret


def _cookie(header: bytes) -> str:
    """The sign-in among a request's cookies; empty: none."""
    for part in header.decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""
