"""Pure: tokens' probabilities as chats tell them, also from the older form that completions have."""

from __future__ import annotations

from typing import Any

import msgspec

from backends.chunk import ChoiceLogprobs


def told(logprobs: ChoiceLogprobs) -> str:
    """JSON text of a list of tokens in the form of chats; ``[]`` or ``null`` where none is told."""
    if not isinstance(logprobs.tokens, list):
        return bytes(logprobs.content).decode("utf-8", "replace")
    found = [
        {"token": token, "logprob": _number(_at(logprobs.token_logprobs, place)), "bytes": None, "top_logprobs": tops}
        for place, token in enumerate(logprobs.tokens)
        if isinstance(token, str)
        for tops in [_tops(_at(logprobs.top_logprobs, place))]
    ]
    return msgspec.json.encode(found).decode("utf-8", "replace")


def _at(values: Any, place: int) -> Any:
    return values[place] if isinstance(values, list) and place < len(values) else None


def _number(value: Any) -> float | None:
    """None of an echoed prompt's first token, which nothing came before."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _tops(table: Any) -> list[dict[str, Any]]:
    if not isinstance(table, dict):
        return []
    return [{"token": str(token), "logprob": _number(value), "bytes": None} for token, value in table.items()]
