"""Values of settings that are more than a number or a word, read from text or from a table of the file. Pure.

Each function raises ``ValueError`` with a clause that says what is wrong and holds neither a key nor a password.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import get_args
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from buffer.backend import BackendSpec, Kind
from buffer.job import Lane
from buffer.model_records import ModelRecord
from buffer.spare_values import check_spare

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .:/@+()_-]{0,63}")
"""It stands in a header, in metrics and in keys."""
_POOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_LOCAL = ("localhost", "127.0.0.1", "0.0.0.0", "[::1]")
OLLAMA_ORIGINS: tuple[str, ...] = (
    *(f"{scheme}://{host}{port}" for host in _LOCAL for scheme in ("http", "https") for port in ("", ":*")),
    *("app://*", "file://*", "tauri://*", "vscode-webview://*", "vscode-file://*"),
)
"""Origins that Ollama answers unasked; ``*`` stands for any text."""


_HASHED = "sha256:"
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_MOST_PER_MINUTE = 100_000


def hashed(key: bytes) -> str:
    """What is kept of a client's key, as ``[[keys]]`` may have it too."""
    return _HASHED + hashlib.sha256(key).hexdigest()


class ApiKey(Struct, omit_defaults=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """A client's key: one ``name:key`` of ``DOUBLEBUFFER_API_KEYS``, or one ``[[keys]]`` of the file.

    Raises ``ValueError`` for a key that begins like a hash and is none: nobody could use it but who reads it there.
    """

    name: str
    key: str
    """Given as it is or as ``hashed`` has it; it is kept as ``hashed`` has it, whatever was given."""
    lanes: list[Lane] = []
    """Lanes above a chat's own that the client may choose."""
    trusted: bool = False
    """Its user headers count."""
    requests_per_minute: int | None = None
    """Most in any minute, over all gateways. None: no limit."""
    models: bool = True
    """It may bring models to Ollama back ends, make, copy, send and remove them."""
    share: float | None = None
    """Part of a back end's places that it may have while others wait. None: no limit."""
    admin: bool = False
    """On the dashboard it sees what requests of other keys do; never what they say."""

    def __post_init__(self) -> None:
        key = self.key.strip()
        # Set here and no field: the file cannot have it.
        self.bare_hash = _DIGEST.fullmatch(key) is not None
        """It was given as a plain key, and looks like the hash of one."""
        if key[: len(_HASHED)].lower() == _HASHED:
            if not _DIGEST.fullmatch(key, len(_HASHED)):
                raise ValueError(
                    f"key {self.name!r} begins with {_HASHED} and is no hash: 64 hexadecimal digits come behind that, "
                    "and nothing else"
                )
            self.key = key.lower()
        elif key:
            self.key = hashed(key.encode())
        else:
            self.key = key

    def __repr__(self) -> str:
        return f"ApiKey(name={self.name!r}, key=…)"


def parse_backends(value: object) -> list[BackendSpec]:
    """The back ends, from JSON text or from the file's tables. URLs lose a trailing slash."""
    try:
        if isinstance(value, str):
            specs = msgspec.json.decode(value, type=list[BackendSpec])
        else:
            specs = msgspec.convert(value, list[BackendSpec], from_attributes=True)
    except msgspec.MsgspecError as error:
        kinds = f"; kinds are {', '.join(get_args(Kind))}" if "enum value" in str(error) else ""
        raise ValueError(f"no list of back ends: {error}{kinds}") from None
    seen: set[str] = set()
    for spec in specs:
        _check_backend(spec, seen)
        seen.add(spec.name)
    _check_fallbacks(specs)
    return [msgspec.structs.replace(spec, url=spec.url.strip().rstrip("/")) for spec in specs]


def _check_backend(spec: BackendSpec, seen: set[str]) -> None:
    if not spec.name.strip():
        raise ValueError("a back end has an empty name")
    if not _NAME.fullmatch(spec.name):
        raise ValueError(f"the back end name {spec.name!r} may hold 64 plain letters, digits, blanks and .:/@+()-_")
    if not _POOL.fullmatch(spec.pool):
        raise ValueError(f"back end {spec.name!r} has the pool {spec.pool!r}: up to 64 plain letters, digits and .-_")
    if spec.name in seen:
        raise ValueError(f"two back ends are called {spec.name!r}")
    check_http_url(spec.url, f"back end {spec.name!r}")
    for field in ("max_in_flight", "kv_tokens", "num_ctx"):
        number = getattr(spec, field)
        if number is not None and number < 1:
            raise ValueError(f"back end {spec.name!r} has {field} below 1")
    if any(not _NAME.fullmatch(name) for name in spec.fallback_for):
        raise ValueError(f"back end {spec.name!r} has a name in fallback_for that no back end can have")
    check_spare(spec)


def _check_fallbacks(specs: Sequence[BackendSpec]) -> None:
    """A back end that only other workers have may be named."""
    by_name = {spec.name: spec for spec in specs}
    for spec in specs:
        for name in spec.fallback_for:
            if name in by_name and by_name[name].pool != spec.pool:
                raise ValueError(f"back end {spec.name!r} has fallback_for {name!r}, which is in another pool")
        behind, known = list(spec.fallback_for), set[str]()
        while behind:
            name = behind.pop()
            if name == spec.name:
                raise ValueError(f"back end {spec.name!r} would have to stand in for itself by its fallback_for")
            if name in by_name and name not in known:
                known.add(name)
                behind += by_name[name].fallback_for


def check_http_url(url: str, owner: str) -> None:
    parts = urlsplit(url.strip())
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{owner} needs a URL that begins with http:// or https:// and names a host")
    try:
        parts.port  # noqa: B018 - reading it is what checks it
    except ValueError:
        raise ValueError(f"{owner} has a port that is none") from None


def parse_api_keys(value: object) -> list[ApiKey]:
    """Keys, from ``name:key,name:key`` or from the file's tables. A key may hold colons, a name may not."""
    if isinstance(value, str):
        keys: list[ApiKey] = []
        for pair in filter(None, (part.strip() for part in value.split(","))):
            name, colon, key = pair.partition(":")
            if not colon:
                raise ValueError("each key is given as name:key, and several are separated by commas")
            keys.append(ApiKey(name=name.strip(), key=key.strip()))
    else:
        try:
            keys = msgspec.convert(value, list[ApiKey], from_attributes=True)
        except msgspec.MsgspecError as error:
            raise ValueError(error.__cause__ or f"no list of keys: {error}") from None
    if any(not key.name or not key.key for key in keys):
        raise ValueError("a key has an empty name, or is itself empty")
    if len({key.name for key in keys}) < len(keys) or len({key.key for key in keys}) < len(keys):
        raise ValueError("two keys share a name, or are the same")
    for each in keys:
        _check_key(each)
    return keys


def _check_key(key: ApiKey) -> None:
    if key.requests_per_minute is not None and not 1 <= key.requests_per_minute <= _MOST_PER_MINUTE:
        raise ValueError(f"key {key.name!r} has requests_per_minute that are not 1 to {_MOST_PER_MINUTE}")
    if key.share is not None and not 0 < key.share <= 1:
        raise ValueError(f"key {key.name!r} has a share that is not above 0 and at most 1")


def parse_models(value: object) -> list[ModelRecord]:
    """What the operator says of models, from JSON text or from the file's tables."""
    try:
        if isinstance(value, str):
            records = msgspec.json.decode(value, type=list[ModelRecord])
        else:
            records = msgspec.convert(value, list[ModelRecord], from_attributes=True)
    except msgspec.MsgspecError as error:
        raise ValueError(f"no list of models: {error}") from None
    for record in records:
        if not record.name.strip():
            raise ValueError("a model has an empty name")
        if record.tags and (len(record.tags) != 2 or not all(record.tags)):
            raise ValueError(f"model {record.name!r} has tags that are not two: one that opens and one that closes")
        if any(not suffix.strip() or suffix.lower() == ":latest" for suffix in record.aliases):
            raise ValueError(f"model {record.name!r} has an alias without an end of its own")
    return records


def parse_list(value: object) -> object:
    """Comma-separated text as a list; anything else as it is."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def parse_refuse_wait(value: object) -> object:
    """JSON text of an object as a dict; anything else as it is."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError:
            raise ValueError("it begins like a JSON object and is none") from None
    return value


def without_password(url: str) -> str:
    """The URL fit to be shown: user, password and query left out."""
    scheme, _, rest = url.partition("://")
    rest = rest.partition("?")[0]
    head, slash, tail = rest.partition("/")
    return f"{scheme}://{head.rpartition('@')[2]}{slash}{tail}"


def names(items: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
