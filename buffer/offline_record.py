"""An offline batch as it stands, and what became of its lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec
from msgspec import Struct

Status = Literal["validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"]
OPEN: frozenset[Status] = frozenset({"validating", "in_progress", "finalizing", "cancelling"})
"""The others are ends."""

MOVES: Mapping[Status, frozenset[Status]] = {
    "validating": frozenset({"in_progress", "failed", "cancelling", "expired"}),
    "in_progress": frozenset({"finalizing", "failed", "cancelling", "expired"}),
    "finalizing": frozenset({"completed", "failed", "expired"}),
    "cancelling": frozenset({"cancelled", "failed"}),
}
"""Status → those that may follow it. ``failed``, once lines were done, is for a file that is gone."""

Endpoint = Literal["/v1/chat/completions", "/v1/completions", "/v1/embeddings"]
ENDPOINTS: tuple[Endpoint, ...] = get_args(Endpoint)


class BatchError(Struct, omit_defaults=True):
    """Why a batch failed, or one of its lines keeps it from beginning."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None
    """From 1 on."""


class LineUsage(Struct, frozen=True):
    """Tokens of an answer, of which some were cached, and some thought."""

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0


class LineResult(Struct, frozen=True):
    """What became of one line."""

    line: int
    """Its number among the lines of the file that have a request, from 1 on."""
    ok: bool
    """It goes to the output file; else to the error file."""
    data: bytes
    """The line there, with its line break."""
    usage: LineUsage = LineUsage()
    counts: bool = True
    """It is counted as completed or failed. False: it was never done, since its batch ended before."""


class Kept(Struct, omit_defaults=True, kw_only=True):
    """What stays of a batch as it is from its beginning on."""

    id: str
    owner: str
    user: str
    """Whose turn its lines take."""
    endpoint: Endpoint
    input_file_id: str
    completion_window: str
    created_at: int
    """Seconds since 1970, as all instants here."""
    expires_at: int
    metadata: dict[str, str] | None = None
    output_s: int
    """How long its output files are kept."""
    output_id: str
    error_id: str
    """The ids that its files will have."""
    share: int = 0
    """As ``Call.share`` of whoever asked for it."""


class OfflineBatch(Struct, kw_only=True):
    """A batch as it stood when it was read."""

    kept: Kept
    status: Status
    model: str | None = None
    errors: list[BatchError] | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    in_progress_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    total: int = 0
    completed: int = 0
    failed: int = 0
    usage: LineUsage = LineUsage()
    fence: int = 0
    """Of its last runner."""

    @property
    def id(self) -> str:
        return self.kept.id

    @property
    def open(self) -> bool:
        """It has not ended."""
        return self.status in OPEN


_KEPT = msgspec.json.Decoder(Kept)
_ERRORS = msgspec.json.Decoder(list[BatchError])
_INSTANTS = ("in_progress_at", "finalizing_at", "completed_at", "failed_at", "expired_at", "cancelling_at")
_INTS = (*_INSTANTS, "cancelled_at", "total", "completed", "failed", "fence")
_TEXTS = ("model", "output_file_id", "error_file_id")


def read_batch(fields: Mapping[bytes, bytes]) -> OfflineBatch:
    """The batch that a hash of Redis stands for."""
    found: dict[str, object] = {name: int(fields[name.encode()]) for name in _INTS if name.encode() in fields}
    found |= {name: fields[name.encode()].decode() for name in _TEXTS if fields.get(name.encode())}
    if b"errors" in fields:
        found["errors"] = _ERRORS.decode(fields[b"errors"])
    tokens = [int(fields.get(f"tokens:{name}".encode(), 0)) for name in LineUsage.__struct_fields__]
    kept, status = _KEPT.decode(fields[b"record"]), fields[b"status"].decode()
    return OfflineBatch(kept=kept, status=status, usage=LineUsage(*tokens), **found)  # type: ignore[arg-type]


def undone(bits: bytes, total: int, after: int = 0) -> list[int]:
    """Numbers of the lines, from behind ``after`` to ``total``, that a bitmap of settled ones lacks."""
    return [
        number
        for number in range(after + 1, total + 1)
        if (number - 1) // 8 >= len(bits) or not bits[(number - 1) // 8] & (0x80 >> ((number - 1) % 8))
    ]
