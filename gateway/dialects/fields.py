"""A request's body, taken apart one level deep: fields that are only carried through are checked, never decoded."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from gateway.dialects.errors import BadRequest

T = TypeVar("T")
Fields = dict[str, Raw]

MOST_LEVELS = 128
"""Objects and lists in one another; deeper bodies are made to break parsers."""
_MOST_INT = 2**63 - 1

_decode_object = msgspec.json.Decoder(Fields).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_any = msgspec.json.Decoder().decode
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NULL = Raw(b"null")


def read_fields(body: bytes, empty: str) -> Fields:
    """The body's fields but those that are null. ``empty``: what to say to no body at all. Raises ``BadRequest``."""
    body = body.removeprefix(b"\xef\xbb\xbf")
    if not body or body.isspace():
        raise BadRequest(empty)
    try:
        if not body.isascii():
            body.decode()
        fields = _decode_object(body)
    except UnicodeDecodeError:
        raise BadRequest("The request body is not valid UTF-8.") from None
    except RecursionError:
        raise BadRequest("The request body is nested too deeply.") from None
    except msgspec.ValidationError:
        raise BadRequest("The request body must be a JSON object.") from None
    except msgspec.DecodeError as error:
        raise BadRequest(f"The request body is not valid JSON: {error}") from None
    return {name: raw for name, raw in fields.items() if raw != _NULL}


def take(fields: Fields, name: str, decoder: msgspec.json.Decoder[T], what: str, where: str = "") -> T | None:
    """Removes a field and decodes it; None if it is not there. ``what``: what it must be, in words."""
    raw = fields.pop(name, None)
    if raw is None:
        return None
    return decode(raw, decoder, f"{where}{name}", what)


def decode(raw: Raw, decoder: msgspec.json.Decoder[T], param: str, what: str) -> T:
    """Raises ``BadRequest``, which names the field but not what it held."""
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise wrong_type(param, what) from None


def wrong_type(param: str, what: str) -> BadRequest:
    return BadRequest(f"Invalid value for '{param}': expected {what}.", param=param)


def take_bool(fields: Fields, name: str) -> bool | None:
    raw = fields.pop(name, None)
    if raw is None:
        return None
    text = bytes(raw)
    if text not in {b"true", b"false"}:
        raise wrong_type(name, "a boolean")
    return text == b"true"


def take_object(fields: Fields, name: str) -> Fields:
    """Removes a field that must be an object and gives its fields but the nulls; empty if it is not there."""
    raw = fields.pop(name, None)
    return {} if raw is None else object_fields(raw, name)


def object_fields(raw: Raw, param: str) -> Fields:
    try:
        found = _decode_object(raw)
    except (msgspec.DecodeError, RecursionError):
        raise wrong_type(param, "an object") from None
    return {name: value for name, value in found.items() if value != _NULL}


def list_items(raw: Raw, param: str) -> list[Raw]:
    try:
        return _decode_list(raw)
    except (msgspec.DecodeError, RecursionError):
        raise wrong_type(param, "an array") from None


def plain(raw: Raw, param: str) -> Any:
    """Decodes a field that may be of any type."""
    try:
        return _decode_any(raw)
    except (msgspec.DecodeError, RecursionError):
        raise BadRequest(f"Invalid value for '{param}'.", param=param) from None


def carried(raw: Raw, param: str) -> Raw:
    """The field as it is, once it is known that whoever decodes it later will be able to. Raises ``BadRequest``."""
    data = bytes(raw)
    # Counting is all that an ordinary field costs; only one with very many brackets is looked at closely.
    if data.count(b"{") + data.count(b"[") > MOST_LEVELS and levels(data) > MOST_LEVELS:
        raise BadRequest(f"'{param}' is nested too deeply.", param=param)
    return raw


def levels(data: bytes) -> int:
    """How deep the objects and lists of valid JSON stand in one another."""
    depth = deepest = 0
    for byte in _STRINGS.sub(b"", data).translate(None, _NOT_BRACKETS):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest


_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def to_int(value: object) -> int | None:
    """A JSON number as a whole number of 64 bits, fractions cut off as Ollama does. None: it is no such number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = int(value)
    return number if -_MOST_INT - 1 <= number <= _MOST_INT else None
