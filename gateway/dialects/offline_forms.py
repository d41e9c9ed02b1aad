"""Files and offline batches as OpenAI's API has them: what clients ask, and what they get. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from buffer.file_record import About, FileRecord
from buffer.job import Failure
from buffer.offline_keys import KEPT_S
from buffer.offline_record import ENDPOINTS, Endpoint, OfflineBatch
from gateway.dialects.errors import BadRequest
from gateway.dialects.fields import Fields, plain, read_fields, take, take_object

WINDOW = "24h"
SHORTEST_S, LONGEST_S = 3600, KEPT_S
MOST_PAIRS, MOST_KEY_CHARS, MOST_VALUE_CHARS = 16, 64, 512
_string = msgspec.json.Decoder(str)
_DIGITS = re.compile(r"[0-9]{1,9}")
_EXPIRES = f"an object with anchor 'created_at' and seconds from {SHORTEST_S} to {LONGEST_S}"


class WantedBatch(Struct, frozen=True):
    """What a client asks for."""

    input_file_id: str
    endpoint: Endpoint
    metadata: dict[str, str] | None
    output_s: int
    """How long its output files are to be kept."""


class WantedPage(Struct, frozen=True):
    """Which part of a list a client asks for."""

    limit: int
    after: str = ""
    purpose: str = ""
    oldest_first: bool = False


def parse_batch(body: bytes) -> WantedBatch:
    """Raises ``BadRequest``."""
    fields = read_fields(body, "The request body is empty; a JSON object is expected.")
    texts = {name: take(fields, name, _string, "a string") for name in ("input_file_id", "endpoint")}
    window = take(fields, "completion_window", _string, "a string")
    for name, value in (*texts.items(), ("completion_window", window)):
        if not value:
            raise BadRequest(f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter")
    endpoint = next((one for one in ENDPOINTS if one == texts["endpoint"]), None)
    if endpoint is None:
        raise BadRequest(f"The endpoint of a batch is one of {', '.join(ENDPOINTS)}.", param="endpoint")
    if window != WINDOW:
        raise BadRequest(f"The completion_window of a batch is {WINDOW}.", param="completion_window")
    return WantedBatch(texts["input_file_id"] or "", endpoint, _metadata(fields), _output_s(fields))


def _metadata(fields: Fields) -> dict[str, str] | None:
    if "metadata" not in fields:
        return None
    found = plain(fields["metadata"], "metadata")
    if not isinstance(found, dict) or len(found) > MOST_PAIRS:
        raise BadRequest(f"metadata is an object of {MOST_PAIRS} pairs at most.", param="metadata")
    for key, value in found.items():
        if len(key) > MOST_KEY_CHARS or not isinstance(value, str) or len(value) > MOST_VALUE_CHARS:
            sizes = f"Keys of metadata have {MOST_KEY_CHARS} characters at most, values are strings of "
            raise BadRequest(f"{sizes}{MOST_VALUE_CHARS} at most.", param="metadata")
    return found


def _output_s(fields: Fields) -> int:
    if "output_expires_after" not in fields:
        return KEPT_S
    given = take_object(fields, "output_expires_after")
    anchor, seconds = (plain(given[name], "output_expires_after") if name in given else None for name in _AFTER)
    if anchor != "created_at" or isinstance(seconds, bool) or not isinstance(seconds, int):
        raise BadRequest(f"output_expires_after is {_EXPIRES}.", param="output_expires_after")
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise BadRequest(f"output_expires_after is {_EXPIRES}.", param="output_expires_after")
    return seconds


_AFTER = ("anchor", "seconds")


def read_upload(fields: Mapping[str, str], filename: str, *, has_file: bool, now: int) -> About:
    """What a form says of the file in it. ``now``: seconds since 1970. Raises ``BadRequest``."""
    purpose = fields.get("purpose", "")
    if not purpose:
        raise BadRequest("Missing required parameter: 'purpose'.", param="purpose", code="missing_required_parameter")
    if purpose != "batch":
        raise BadRequest("Files are for batches here: the purpose is 'batch'.", param="purpose")
    if not has_file:
        raise BadRequest("Missing required parameter: 'file'.", param="file", code="missing_required_parameter")
    if not filename.lower().endswith(".jsonl"):
        raise BadRequest("Invalid file format for Batch API. Must be .jsonl", param="file")
    anchor, seconds = fields.get("expires_after[anchor]"), fields.get("expires_after[seconds]")
    if anchor is None and seconds is None:
        return About(filename, purpose)
    if anchor != "created_at" or not _DIGITS.fullmatch(seconds or ""):
        raise BadRequest(f"expires_after is {_EXPIRES}.", param="expires_after")
    kept_s = int(seconds or 0)
    if not SHORTEST_S <= kept_s <= LONGEST_S:
        raise BadRequest(f"expires_after is {_EXPIRES}.", param="expires_after")
    return About(filename, purpose, now + kept_s)


def read_page(query: Mapping[str, str], *, most: int, usual: int) -> WantedPage:
    """Raises ``BadRequest``."""
    limit, order = query.get("limit", str(usual)), query.get("order", "desc")
    if not _DIGITS.fullmatch(limit) or not 1 <= int(limit) <= most:
        raise BadRequest(f"limit is a number from 1 to {most}.", param="limit")
    if order not in ("asc", "desc"):
        raise BadRequest("order is asc or desc.", param="order")
    return WantedPage(int(limit), query.get("after", ""), query.get("purpose", ""), order == "asc")


def no_such(kind: Literal["File", "Batch"], id: str) -> Failure:
    """Of an id that is nobody's, or another's."""
    return Failure(f"No such {kind} object: {id[:64]}", 404, "", "id")


def file_object(record: FileRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "object": "file",
        "bytes": record.bytes,
        "created_at": record.created_at,
        "expires_at": record.expires_at,
        "filename": record.filename,
        "purpose": record.purpose,
        "status": "processed",
        "status_details": None,
    }


def batch_object(batch: OfflineBatch) -> dict[str, Any]:
    kept, usage = batch.kept, batch.usage
    errors = None if batch.errors is None else {"object": "list", "data": [_error(one) for one in batch.errors]}
    return {
        "id": kept.id,
        "object": "batch",
        "endpoint": kept.endpoint,
        "model": batch.model,
        "errors": errors,
        "input_file_id": kept.input_file_id,
        "completion_window": kept.completion_window,
        "status": batch.status,
        "output_file_id": batch.output_file_id,
        "error_file_id": batch.error_file_id,
        "created_at": kept.created_at,
        "in_progress_at": batch.in_progress_at,
        "expires_at": kept.expires_at,
        "finalizing_at": batch.finalizing_at,
        "completed_at": batch.completed_at,
        "failed_at": batch.failed_at,
        "expired_at": batch.expired_at,
        "cancelling_at": batch.cancelling_at,
        "cancelled_at": batch.cancelled_at,
        "request_counts": {"total": batch.total, "completed": batch.completed, "failed": batch.failed},
        "usage": {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        },
        "metadata": kept.metadata,
    }


def _error(one: Any) -> dict[str, Any]:
    return {"code": one.code, "message": one.message, "param": one.param, "line": one.line}


def list_object(items: Sequence[dict[str, Any]], *, more: bool) -> dict[str, Any]:
    return {
        "object": "list",
        "data": list(items),
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": more,
    }
