"""Sampling settings, lengths and lifetimes, as both dialects spell them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Raw

from buffer.job import Sampling
from gateway.dialects.errors import BadRequest
from gateway.dialects.fields import Fields, carried, plain, to_int, wrong_type

_Type = Literal["integer", "float32"]

_NUMBERS: dict[str, tuple[str, _Type]] = {
    "temperature": ("temperature", "float32"),
    "top_p": ("top_p", "float32"),
    "top_k": ("top_k", "integer"),
    "min_p": ("min_p", "float32"),
    "typical_p": ("typical_p", "float32"),
    "repeat_penalty": ("repeat_penalty", "float32"),
    "repetition_penalty": ("repeat_penalty", "float32"),
    "repeat_last_n": ("repeat_last_n", "integer"),
    "presence_penalty": ("presence_penalty", "float32"),
    "frequency_penalty": ("frequency_penalty", "float32"),
    "seed": ("seed", "integer"),
}
"""Name in a body → field of ``Sampling`` and type. A later name gives way to an earlier one."""
_NAMES = frozenset(_NUMBERS)

ENGINE_OPTIONS = (
    "num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "use_mmap", "num_thread", "draft_num_predict",
    "mirostat", "mirostat_tau", "mirostat_eta", "tfs_z", "penalize_newline",
)  # fmt: skip
"""Ollama's options beyond ``Sampling``; Open WebUI puts them flat into OpenAI bodies."""

MOST_STOPS = 256
"""Each may have to be looked for in each piece of an answer."""

# Digits can be read in one way only, or a long text that is no duration would be tried in all of them.
_DURATION = re.compile(r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)")


def take_sampling(fields: Fields, sampling: Sampling, form: str = "{}") -> None:
    """Moves settings of ``fields`` into ``sampling`` where they are unset. ``form``: how an error names one."""
    if _NAMES.isdisjoint(fields):
        return
    for name, (attribute, kind) in _NUMBERS.items():
        raw = fields.pop(name, None)
        if raw is None:
            continue
        number = _number(raw, form.format(name), kind)
        if getattr(sampling, attribute) is None:
            setattr(sampling, attribute, number)


def _number(raw: Raw, param: str, kind: _Type) -> float | int:
    value = plain(raw, param)
    if kind == "integer":
        number = to_int(value)
        if number is None:
            raise _wrong(param, kind)
        return number
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(param, kind)
    try:
        return float(value)
    except OverflowError:
        raise _wrong(param, kind) from None


def _wrong(param: str, kind: str) -> BadRequest:
    if param.startswith("option "):
        return BadRequest(f"{param} must be of type {kind}", param="options")
    return wrong_type(param, "an integer" if kind == "integer" else "a number")


def take_stop(fields: Fields, param: str = "stop") -> list[str] | None:
    """Stop texts from a text or a list of them, empty ones left out; None if the field is not there."""
    raw = fields.pop("stop", None)
    if raw is None:
        return None
    value = plain(raw, param)
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise (
            _wrong(param, "array")
            if param.startswith("option ")
            else wrong_type(param, "a string or an array of strings")
        )
    if len(value) > MOST_STOPS:
        raise BadRequest(f"'{param}' may hold at most {MOST_STOPS} texts.", param="stop")
    return [item for item in value if item]


def take_int(fields: Fields, name: str, form: str = "{}") -> int | None:
    raw = fields.pop(name, None)
    if raw is None:
        return None
    number = _number(raw, form.format(name), "integer")
    return int(number)


def take_num_predict(options: Fields, form: str = 'option "{}"') -> int | None:
    """Ollama's bound on an answer's length; None where it is negative, which means none."""
    number = take_int(options, "num_predict", form)
    return None if number is None or number < 0 else number


def take_top_logprobs(fields: Fields) -> int | None:
    number = take_int(fields, "top_logprobs")
    if number is not None and not 0 <= number <= 20:
        raise BadRequest("top_logprobs must be between 0 and 20", param="top_logprobs")
    return number


def take_keep_alive(fields: Fields) -> Raw | None:
    """How long the model is to stay loaded: a JSON number of seconds, or a Go duration. Text of a number is one."""
    raw = fields.pop("keep_alive", None)
    if raw is None:
        return None
    value = plain(raw, "keep_alive")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadRequest('keep_alive must be a number of seconds or a duration such as "5m"', param="keep_alive")
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text):
            return Raw(_plain_number(float(text)))
        if not _DURATION.fullmatch(text):
            shown = text[:40].encode("ascii", "backslashreplace").decode()
            raise BadRequest(f'time: invalid duration "{shown}"', param="keep_alive")
        return Raw(b'"' + text.encode() + b'"')
    return Raw(_plain_number(float(value)))


def _plain_number(seconds: float) -> bytes:
    """Without an exponent, and within what fits a Go duration (292 years)."""
    seconds = min(max(seconds, -9e9), 9e9)
    return b"%d" % seconds if seconds == int(seconds) else f"{seconds:.9f}".rstrip("0").rstrip(".").encode()


def keep_alive_s(keep_alive: Raw | None) -> float | None:
    """Seconds of a ``Chat.keep_alive``: negative for ever, 0 at once. None: it is unset."""
    if keep_alive is None:
        return None
    value = plain(keep_alive, "keep_alive")
    if isinstance(value, str):
        seconds = sum(float(number) * _UNIT_S[unit] for number, unit in _DURATION_PART.findall(value))
        return -seconds if value.startswith("-") else seconds
    return float(value)


def carry(fields: Mapping[str, Raw], where: str = "") -> dict[str, Raw]:
    """Fields that nobody here reads, as they are."""
    return {name: carried(raw, f"{where}{name}") for name, raw in fields.items()}
