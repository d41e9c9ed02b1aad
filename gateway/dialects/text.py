"""JSON text that every client's parser takes, and instants as Ollama writes them.

Official clients split a stream into lines the way ``str.splitlines`` does, so U+0085, U+2028 and U+2029 must not stand
in it as they are.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec
from msgspec import Raw

_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_LINE_ENDS = re.compile("[\x85\u2028\u2029]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_INSTANT = 253402214400.0  # One day before the year 10000, which no client's calendar has.


def quote(text: str) -> bytes:
    """``text`` as JSON, in quotes. A lone surrogate, which UTF-8 has no bytes for, becomes U+FFFD."""
    try:
        quoted = _encode(text)
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        quoted = _encode(text)
    if text.isascii() or not _LINE_ENDS.search(text):
        return quoted
    return escape_line_ends(quoted)


def escape_line_ends(json_text: bytes) -> bytes:
    """The same JSON, with the three characters escaped that some clients take for the end of a line."""
    # In valid UTF-8 these byte sequences are these characters, and in JSON they stand only within strings.
    return (
        json_text.replace(b"\xc2\x85", b"\\u0085")
        .replace(b"\xe2\x80\xa8", b"\\u2028")
        .replace(b"\xe2\x80\xa9", b"\\u2029")
    )


def dump(value: object) -> bytes:
    """A plain value as one line of JSON. Strings in it must hold no lone surrogate."""
    return escape_line_ends(_encode(value))


def one_line(json_text: str) -> bytes:
    """JSON that somebody else wrote, fit to stand in a line."""
    data = json_text.encode("utf-8", "replace").replace(b"\n", b" ").replace(b"\r", b" ")
    return data if data.isascii() else escape_line_ends(data)


def json_object(text: str | bytes | Raw) -> bytes | None:
    """A JSON object's text without blanks between its parts, keys in order; of no text ``{}``. None: no object."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else bytes(text)
    if not data.strip():
        return b"{}"
    try:
        _decode_object(data)
        return escape_line_ends(msgspec.json.format(data, indent=-1))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=64)
def _second(whole: int) -> str:
    return (_EPOCH + timedelta(seconds=whole)).strftime("%Y-%m-%dT%H:%M:%S")


def instant(at: float) -> str:
    """Seconds since 1970 as RFC 3339 in UTC, to the microsecond."""
    at = min(max(at, 0.0), _LAST_INSTANT)
    whole = int(at)
    return f"{_second(whole)}.{int((at - whole) * 1_000_000):06d}Z"
