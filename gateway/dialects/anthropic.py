"""Anthropic's Messages body as the one form inside."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from buffer.job import Chat, Failure, Format, Sampling
from gateway.dialects import thinking
from gateway.dialects.agent_tools import choice_of, function_tool, only_foreign
from gateway.dialects.anthropic_answer import NO_THREADS, Stream, Whole, error, token_count
from gateway.dialects.anthropic_blocks import read_turns
from gateway.dialects.errors import BadRequest
from gateway.dialects.fields import (
    Fields,
    carried,
    list_items,
    object_fields,
    plain,
    read_fields,
    take,
    take_bool,
    take_object,
    wrong_type,
)
from gateway.dialects.sampling import take_int, take_sampling, take_stop

__all__ = ["Stream", "Whole", "error", "parse_chat", "parse_count", "token_count", "unknown_model"]

_string = msgspec.json.Decoder(str)
_CHOICES = {"auto": Raw(b'"auto"'), "any": Raw(b'"required"'), "none": Raw(b'"none"')}


def parse_chat(body: bytes, *, allow_image_urls: bool = False) -> Chat:
    """The chat that ``body`` asks for, whatever content type it came with. Raises ``BadRequest`` and nothing else."""
    return _parse(body, allow_image_urls=allow_image_urls, answered=True)


def parse_count(body: bytes, *, allow_image_urls: bool = False) -> Chat:
    """The chat whose tokens ``body`` wants counted: one that need not say how long its answer may be."""
    return _parse(body, allow_image_urls=allow_image_urls, answered=False)


def _parse(body: bytes, *, allow_image_urls: bool, answered: bool) -> Chat:
    fields = read_fields(body, "The request body is empty; a JSON object is expected.")
    name = take(fields, "model", _string, "a string")
    if not name:
        raise BadRequest("model: Field required", param="model")
    chat = Chat(name, [], "anthropic", stream=bool(take_bool(fields, "stream")))
    chat.max_tokens = take_int(fields, "max_tokens")
    if answered and chat.max_tokens is None:
        raise BadRequest("max_tokens: Field required", param="max_tokens")
    if chat.max_tokens is not None and chat.max_tokens < 1:
        raise BadRequest("max_tokens: Input should be greater than or equal to 1", param="max_tokens")
    if "messages" not in fields:
        raise BadRequest("messages: Field required", param="messages")
    if "thread" in fields:
        message = "thread: nothing is stored here; send the whole conversation as messages"
        raise BadRequest(message, param="thread", code=NO_THREADS)
    turns = read_turns(fields.pop("system", None), fields.pop("messages"), allow_links=allow_image_urls)
    chat.messages = turns.done()
    if all(message.role == "system" for message in chat.messages):
        raise BadRequest("messages: at least one message is required", param="messages")
    output = take_object(fields, "output_config")
    config = take_object(fields, "thinking")
    chat.show_reasoning = plain(config.get("display", Raw(b"null")), "thinking.display") != "omitted"
    chat.think = thinking.from_anthropic(fields, config, output)
    chat.format = _format(output)
    chat.sampling = Sampling()
    take_sampling(fields, chat.sampling)
    if "stop_sequences" in fields:
        fields["stop"] = fields.pop("stop_sequences")
        chat.stop = take_stop(fields, "stop_sequences") or []
    chat.tools = _tools(fields)
    _choose(chat, fields)
    return chat


def _format(output: Fields) -> Format | None:
    raw = output.get("format")
    if raw is None:
        return None
    wanted = object_fields(raw, "output_config.format")
    kind = plain(wanted["type"], "output_config.format.type") if "type" in wanted else None
    schema = wanted.get("schema")
    if kind != "json_schema" or schema is None or bytes(schema)[:1] != b"{":
        raise BadRequest(
            "output_config.format: expected type 'json_schema' with a schema", param="output_config.format"
        )
    return Format("schema", carried(schema, "output_config.format.schema"), "schema")


def _tools(fields: Fields) -> list[Raw]:
    """The tools that the client runs. Those that Anthropic runs, or taught its own models, no engine here can offer."""
    raw = fields.pop("tools", None)
    if raw is None:
        return []
    tools, foreign = [], []
    for place, item in enumerate(list_items(raw, "tools")):
        where = f"tools.{place}"
        wanted = object_fields(item, where)
        kind = plain(wanted["type"], f"{where}.type") if "type" in wanted else "custom"
        if kind == "custom" or "input_schema" in wanted:
            tools.append(function_tool(wanted, where, parameters="input_schema").raw)
        else:
            foreign.append(str(kind))
    if foreign and not tools:
        raise only_foreign(foreign)
    return tools


def _choose(chat: Chat, fields: Fields) -> None:
    raw = fields.pop("tool_choice", None)
    if raw is None:
        return
    choice: Any = plain(raw, "tool_choice")
    kind = choice.get("type") if isinstance(choice, dict) else None
    name = choice.get("name") if isinstance(choice, dict) else None
    if not isinstance(kind, str) or kind not in {*_CHOICES, "tool"}:
        raise wrong_type("tool_choice.type", "'auto', 'any', 'tool' or 'none'")
    if kind == "tool" and not (isinstance(name, str) and name):
        raise BadRequest("tool_choice.name: Field required", param="tool_choice.name")
    if not chat.tools:
        return
    chat.tool_choice = choice_of(str(name)) if kind == "tool" else _CHOICES[kind]
    if choice.get("disable_parallel_tool_use") is True:
        chat.parallel_tool_calls = False


def unknown_model(name: str) -> Failure:
    return Failure(f"model: {name}", 404, "model_not_found", "model")
