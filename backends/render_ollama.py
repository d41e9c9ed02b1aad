"""Pure: a job as the body of Ollama's ``/api/chat``."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from msgspec import Raw

from backends.base import BackendError
from backends.extras import ollama_format
from backends.thinking import Plan, ollama_think
from buffer.job import AudioPart, Chat, ImagePart, Message

log = logging.getLogger("doublebuffer.backends")

_SAFE = frozenset({"num_keep", "mirostat", "mirostat_tau", "mirostat_eta", "tfs_z", "penalize_newline"})
"""Options beyond sampling that change an answer and nothing of the server."""


def render_ollama(
    chat: Chat, upstream_model: str, chosen: Plan, *, num_ctx: int | None, can_think: bool = True
) -> dict[str, Any]:
    """``num_ctx``: the operator's; clients cannot change it then. ``can_think``: False if Ollama tells that the model
    cannot. Raises ``BackendError``."""
    fields: dict[str, Any] = {
        "model": upstream_model,
        "messages": [_message(message) for message in chat.messages],
        "stream": True,
        "options": options_of(chat, num_ctx),
        **settings(chat),
    }
    if tools := _tools(chat):
        fields["tools"] = tools
    if (think := ollama_think(chosen, chat, can_think=can_think)) is not None:
        fields["think"] = think
    return fields


def settings(chat: Chat) -> dict[str, Any]:
    """What stands beside the options on both of Ollama's ways to ask. Raises ``BackendError``."""
    fields: dict[str, Any] = {}
    if (wanted := ollama_format(chat)) is not None:
        fields["format"] = wanted
    if chat.keep_alive is not None:
        fields["keep_alive"] = chat.keep_alive
    if not chat.truncate:
        fields["truncate"] = False
    if chat.logprobs:
        fields["logprobs"] = True
        if chat.top_logprobs is not None:
            fields["top_logprobs"] = chat.top_logprobs
    if "shift" in chat.extra:
        fields["shift"] = chat.extra["shift"]
    return fields


def _message(message: Message) -> dict[str, Any]:
    # Ollama wants a text here, always.
    wire: dict[str, Any] = {"role": message.role, "content": message.text()}
    if message.reasoning:
        wire["thinking"] = message.reasoning
    if not isinstance(message.content, str):
        media = [base64_of(part.url) for part in message.content if isinstance(part, ImagePart)]
        media += [part.data for part in message.content if isinstance(part, AudioPart)]
        if media:
            wire["images"] = media
    if message.tool_calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "function": {"index": at, "name": call.name, "arguments": _arguments(call.arguments)},
            }
            for at, call in enumerate(message.tool_calls)
        ]
    if message.role == "tool":
        if message.tool_call_id:
            wire["tool_call_id"] = message.tool_call_id
        if message.tool_name:
            wire["tool_name"] = message.tool_name
    return wire


def _arguments(text: str) -> Raw | dict[str, Any]:
    """An object as it was written, so that the order of its keys stays."""
    try:
        if isinstance(msgspec.json.decode(text or "{}"), dict):
            return Raw((text or "{}").encode())
    except msgspec.DecodeError:
        log.debug("a tool call's arguments in a conversation are no JSON; sent as none")
    return {}


def base64_of(url: str) -> str:
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:"):
        message = "Images must be sent as base64: Ollama fetches no links."
        raise BackendError(message, kind="client", status=400, code="unsupported_value", param="messages")
    return data


def _tools(chat: Chat) -> list[Raw]:
    """The tools that may be called. Ollama cannot be made to call one; a named one is made the only one."""
    choice: Any = None if chat.tool_choice is None else msgspec.json.decode(chat.tool_choice)
    if choice == "none":
        return []
    function = choice.get("function") if isinstance(choice, dict) else None
    if not isinstance(function, dict):
        return chat.tools
    name = function.get("name")
    return [tool for tool in chat.tools if _name(msgspec.json.decode(tool)) == name] or chat.tools


def _name(tool: Any) -> Any:
    function = tool.get("function") if isinstance(tool, dict) else None
    return function.get("name") if isinstance(function, dict) else None


def options_of(chat: Chat, num_ctx: int | None) -> dict[str, Any]:
    """What a client may set of Ollama's options. The others have it load the model anew, or are none. ``num_ctx``: the
    operator's, which nobody changes."""
    known = _SAFE if num_ctx else _SAFE | {"num_ctx"}
    options: dict[str, Any] = {name: value for name, value in chat.options.items() if name in known}
    options |= {name: value for name, value in msgspec.to_builtins(chat.sampling).items() if value is not None}
    if chat.max_tokens is not None:
        options["num_predict"] = chat.max_tokens
    if chat.stop:
        options["stop"] = chat.stop
    if num_ctx:
        options["num_ctx"] = num_ctx
    return options
