"""OpenAI's Responses body as the one form inside. Nothing is stored: each request brings its whole conversation."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from buffer.job import Chat, Format, Sampling
from gateway.dialects import thinking
from gateway.dialects.agent_tools import Tool, choice_of, function_tool, only_foreign
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
from gateway.dialects.formats import schema_format
from gateway.dialects.openai import unknown_model
from gateway.dialects.openai_answer import error
from gateway.dialects.responses_items import flat_name, read_turns
from gateway.dialects.responses_object import ASKED, Asked
from gateway.dialects.responses_stream import Stream, Whole
from gateway.dialects.sampling import take_int, take_sampling

__all__ = ["Stream", "Whole", "error", "parse_chat", "unknown_model"]

_string = msgspec.json.Decoder(str)
_STORED = {
    "previous_response_id": "Nothing is stored here: send the whole conversation as 'input'.",
    "conversation": "Nothing is stored here: send the whole conversation as 'input'.",
    "prompt": "Nothing is stored here, so there are no prompts to refer to.",
}


def parse_chat(body: bytes, *, allow_image_urls: bool = False) -> Chat:
    """The chat that ``body`` asks for, whatever content type it came with. Raises ``BadRequest`` and nothing else."""
    fields = read_fields(body, "The request body is empty; a JSON object is expected.")
    name = take(fields, "model", _string, "a string")
    if not name:
        raise BadRequest("you must provide a model parameter", param="model")
    for field, why in _STORED.items():
        if field in fields:
            raise BadRequest(why, param=field, code="unsupported_parameter")
    if take_bool(fields, "background"):
        raise BadRequest("Answers in the background are not kept here.", param="background", code="unsupported_value")
    instructions = take(fields, "instructions", _string, "a string") or ""
    if "input" not in fields:
        raise BadRequest("Missing required parameter: 'input'.", param="input")
    turns = read_turns(instructions, fields.pop("input"), allow_links=allow_image_urls)
    chat = Chat(name, turns.done(), "responses", stream=bool(take_bool(fields, "stream")))
    if not chat.messages:
        raise BadRequest("'input' must hold at least one message.", param="input")
    asked = Asked(instructions=len(instructions))
    reasoning = take_object(fields, "reasoning")
    chat.think = thinking.from_responses(fields, reasoning)
    chat.sampling = Sampling()
    take_sampling(fields, chat.sampling)
    chat.max_tokens = take_int(fields, "max_output_tokens")
    if chat.max_tokens is not None and chat.max_tokens < 1:
        raise BadRequest("Invalid value for 'max_output_tokens': expected at least 1.", param="max_output_tokens")
    chat.truncate = take(fields, "truncation", _string, "a string") != "disabled"
    text = take_object(fields, "text")
    chat.format = _format(text)
    tools = _tools(fields, asked)
    chat.tools = [tool.raw for tool in tools]
    chat.parallel_tool_calls = take_bool(fields, "parallel_tool_calls")
    _choose(chat, tools, fields)
    if "include" in fields:
        asked.encrypted = "reasoning.encrypted_content" in _names(fields.pop("include"))
    if "metadata" in fields:
        raw = fields.pop("metadata")
        object_fields(raw, "metadata")
        asked.metadata = carried(raw, "metadata")
    if "user" in fields:
        chat.extra["user"] = carried(fields["user"], "user")
    if "verbosity" in text:
        chat.extra["verbosity"] = carried(text["verbosity"], "text.verbosity")
    chat.extra[ASKED] = Raw(msgspec.json.encode(asked))
    return chat


def _names(raw: Raw) -> list[Any]:
    found = plain(raw, "include")
    if not isinstance(found, list):
        raise wrong_type("include", "an array")
    return found


def _format(text: Fields) -> Format | None:
    raw = text.get("format")
    if raw is None:
        return None
    wanted = object_fields(raw, "text.format")
    kind = plain(wanted["type"], "text.format.type") if "type" in wanted else None
    match kind:
        case "text":
            return None
        case "json_object":
            return Format("json")
        case "json_schema":
            return schema_format(wanted, "text.format")
        case _:
            raise wrong_type("text.format.type", "'text', 'json_object' or 'json_schema'")


def _tools(fields: Fields, asked: Asked) -> list[Tool]:
    """The functions on offer. Tools that OpenAI runs, or taught its own models, no engine here can offer."""
    raw = fields.pop("tools", None)
    if raw is None:
        return []
    tools: list[Tool] = []
    foreign: list[str] = []
    for place, item in enumerate(list_items(raw, "tools")):
        _tool(object_fields(item, f"tools[{place}]"), f"tools[{place}]", tools, foreign, asked)
    if foreign and not tools:
        raise only_foreign(foreign)
    return tools


def _tool(
    wanted: Fields, where: str, tools: list[Tool], foreign: list[str], asked: Asked, *, namespace: str = ""
) -> None:
    kind = plain(wanted["type"], f"{where}.type") if "type" in wanted else None
    if kind == "function":
        # Chat completions have it one level deeper, and clients mix the two up.
        inner = object_fields(wanted["function"], f"{where}.function") if "function" in wanted else wanted
        name = plain(inner["name"], f"{where}.name") if "name" in inner else None
        flat = flat_name(namespace, name) if namespace and isinstance(name, str) and name else ""
        tool = function_tool(inner, where, parameters="parameters", name=flat)
        if flat:
            asked.namespaces[flat] = (namespace, str(name))
        tools.append(tool)
    elif kind == "namespace" and not namespace:
        name = plain(wanted["name"], f"{where}.name") if "name" in wanted else None
        if not isinstance(name, str) or not name or "tools" not in wanted:
            raise wrong_type(where, "a namespace with a name and tools")
        for place, item in enumerate(list_items(wanted["tools"], f"{where}.tools")):
            at = f"{where}.tools[{place}]"
            _tool(object_fields(item, at), at, tools, foreign, asked, namespace=name)
    else:
        foreign.append(str(kind))


def _choose(chat: Chat, tools: list[Tool], fields: Fields) -> None:
    raw = fields.pop("tool_choice", None)
    if raw is None:
        return
    choice: Any = plain(raw, "tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        allowed = choice.get("tools")
        if not isinstance(allowed, list):
            raise wrong_type("tool_choice.tools", "an array")
        names = [tool.get("name") for tool in allowed if isinstance(tool, dict)]
        chat.tools = [tool.raw for tool in tools if tool.name in names]
        choice = choice.get("mode", "auto")
        if choice == "required" and not chat.tools:
            why = "A call of a tool is required, and none of the tools that may be called is among 'tools'."
            raise BadRequest(why, param="tool_choice")
    if choice in ("none", "auto", "required"):
        wanted = Raw(msgspec.json.encode(choice))
    elif isinstance(choice, dict) and choice.get("type") == "function" and isinstance(choice.get("name"), str):
        wanted = choice_of(choice["name"])
    else:
        raise wrong_type("tool_choice", "'none', 'auto', 'required', allowed tools or a function's name in an object")
    if chat.tools:
        chat.tool_choice = wanted
