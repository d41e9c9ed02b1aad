"""The lines that an offline batch writes. Pure.

``answer_line`` is one of the output file where the status is below 400, else of the error file; ``error_line`` is
always of the error file, for what was never answered.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct

from buffer.offline_record import LineUsage

EXPIRED: Final = ("batch_expired", "This request could not be executed before the completion window expired.")
CANCELLED: Final = ("batch_cancelled", "This request was not executed, since the batch was cancelled.")
"""Code and message of lines that were never done."""

_PARTINGS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))
"""What some readers take for the end of a line; in JSON it stands inside of strings only."""


_MOST_TOKENS = 10**9
"""No engine makes more of one line; what says so is wrong, and must not spoil the sum."""


class _Response(Struct):
    status_code: int
    request_id: str
    body: Raw


class _Error(Struct):
    code: str
    message: str


class _Line(Struct):
    id: str
    custom_id: str
    response: _Response | None
    error: _Error | None


class _Details(Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Answer(Struct):
    usage: _Usage | None = None


_answer = msgspec.json.Decoder(_Answer)


def answer_line(id: str, custom_id: str, status: int, request_id: str, body: bytes) -> bytes:
    """What an endpoint answered, as a line with its line break. ``id``: of this try at the line, ``batch_req_…``;
    ``body``: JSON.
    """
    if b"\n" in body or b"\r" in body:
        body = msgspec.json.format(body, indent=-1)
    return _encode(_Line(id, custom_id, _Response(status, request_id, Raw(body)), None))


def error_line(id: str, custom_id: str, code: str, message: str) -> bytes:
    """Why a line got no answer, as a line with its line break."""
    return _encode(_Line(id, custom_id, None, _Error(code, message)))


def _encode(line: _Line) -> bytes:
    data = msgspec.json.encode(line)
    if not data.isascii():
        for parting, escaped in _PARTINGS:
            data = data.replace(parting, escaped)
    return data + b"\n"


def usage_of(body: bytes) -> LineUsage:
    """The tokens that an answer tells of; none where it tells nothing that can be read."""
    try:
        usage = _answer.decode(body).usage
    except (msgspec.DecodeError, RecursionError):
        return LineUsage()
    if usage is None:
        return LineUsage()
    read, thought = usage.prompt_tokens_details, usage.completion_tokens_details
    counts = (
        usage.prompt_tokens,
        read.cached_tokens if read else 0,
        usage.completion_tokens,
        thought.reasoning_tokens if thought else 0,
    )
    return LineUsage(*(min(max(count or 0, 0), _MOST_TOKENS) for count in counts))
