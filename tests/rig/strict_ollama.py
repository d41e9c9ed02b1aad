"""What Ollama refuses: it is written in Go, and takes no field of another type than its own."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection
from typing import Any

_DURATION = re.compile(r"[-+]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+")
_INT_OPTIONS = {"num_keep", "seed", "num_predict", "top_k", "repeat_last_n", "num_ctx", "num_batch", "num_gpu"}
_INT_OPTIONS |= {"main_gpu", "num_thread"}
_FLOAT_OPTIONS = {"top_p", "min_p", "typical_p", "temperature", "repeat_penalty", "presence_penalty"}
_FLOAT_OPTIONS |= {"frequency_penalty"}


class RefusedError(Exception):
    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def require(holds: bool, message: str, status: int = 400) -> None:
    if not holds:
        raise RefusedError(message, status)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def judge_ollama(path: str, body: dict[str, Any], models: Collection[str]) -> None:
    name = body.get("model")
    require(isinstance(name, str) and name != "", "model is required")
    known = {model if ":" in model else f"{model}:latest" for model in models}
    full = str(name) if ":" in str(name) else f"{name}:latest"
    require(full.lower() in {model.lower() for model in known}, f"model '{name}' not found", 404)
    _text_fields(body, "system", "prompt", "suffix", "template")
    for field in ("stream", "truncate", "shift", "logprobs", "raw"):
        require(
            isinstance(body.get(field, False), bool | None), f"json: cannot unmarshal into field .{field} of type bool"
        )
    _keep_alive(body.get("keep_alive"))
    _options(body.get("options"))
    if path == "/api/embed":
        inputs = body.get("input")
        listed = isinstance(inputs, list) and all(isinstance(one, str) for one in inputs)
        require(isinstance(inputs, str) or listed, "invalid input type")
        return
    shape = body.get("format")
    require(shape in (None, "", "json") or isinstance(shape, dict), "invalid format")
    think = body.get("think")
    require(
        think is None or isinstance(think, bool) or think in ("low", "medium", "high", "max"), "invalid think value"
    )
    if body.get("raw"):
        require(
            not (body.get("system") or body.get("template")), "raw mode does not support template, system, or context"
        )
    _images(body.get("images"))
    for message in body.get("messages") or []:
        _ollama_message(message)
    for tool in body.get("tools") or []:
        function = tool.get("function") or {}
        require(isinstance(function.get("name"), str), "json: tools[].function.name")
        parameters = function.get("parameters") or {}
        require(isinstance(parameters.get("type", ""), str), "json: tools[].function.parameters.type of type string")
        require(isinstance(parameters.get("required") or [], list), "json: tools[].function.parameters.required")
        require(isinstance(parameters.get("properties") or {}, dict), "json: tools[].function.parameters.properties")


def _text_fields(body: dict[str, Any], *names: str) -> None:
    for name in names:
        require(isinstance(body.get(name), str | None), f"json: cannot unmarshal into field .{name} of type string")


def _ollama_message(message: Any) -> None:
    require(isinstance(message, dict) and isinstance(message.get("role"), str), "json: messages[].role")
    _text_fields(message, "content", "thinking", "tool_name", "tool_call_id")
    _images(message.get("images"))
    for call in message.get("tool_calls") or []:
        arguments = call["function"].get("arguments")
        require(isinstance(arguments, dict), "json: cannot unmarshal into field .arguments of type map")
        require(isinstance(call["function"].get("index", 0), int), "json: index of type int")


def _images(images: Any) -> None:
    require(isinstance(images, list | None), "json: images")
    for image in images or []:
        try:
            base64.b64decode(image, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise RefusedError("illegal base64 data at input byte 4") from None


def _keep_alive(value: Any) -> None:
    duration = isinstance(value, str) and _DURATION.fullmatch(value) is not None
    require(value is None or is_number(value) or duration, f"time: invalid duration {value!r}")


def _options(options: Any) -> None:
    require(isinstance(options, dict | None), "json: options of type map")
    for name, value in (options or {}).items():
        if value is None:
            continue
        if name in _INT_OPTIONS | _FLOAT_OPTIONS:
            kind = "integer" if name in _INT_OPTIONS else "float32"
            require(is_number(value), f'option "{name}" must be of type {kind}', 500)
        elif name == "stop":
            texts = isinstance(value, list) and all(isinstance(stop, str) for stop in value)
            require(texts, 'option "stop" must be of type array', 500)
