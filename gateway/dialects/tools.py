"""Tools as they are offered, chosen and called."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from buffer.job import ToolCall
from gateway.dialects.errors import BadRequest
from gateway.dialects.fields import Fields, carried, list_items, plain, wrong_type
from gateway.dialects.text import json_object

_CHOICES = {"none", "auto", "required", "any"}


class WireFunction(Struct):
    name: str
    arguments: Raw = Raw(b"null")
    index: int | None = None


class WireCall(Struct):
    """A call in a history, as both bodies write it. Ollama's has an object for ``arguments``, OpenAI's text."""

    function: WireFunction
    id: str | None = None
    index: int | None = None
    """Open WebUI puts it here rather than into ``function``."""


class _Name(Struct):
    name: str


class _Tool(Struct):
    type: str | None = None
    function: _Name | None = None


_tool = msgspec.json.Decoder(_Tool)
_text = msgspec.json.Decoder(str)


def take_tools(fields: Fields) -> list[Raw]:
    """The tools on offer, each as it came. Raises ``BadRequest``."""
    raw = fields.pop("tools", None)
    if raw is None:
        return []
    tools = list_items(raw, "tools")
    for place, tool in enumerate(tools):
        try:
            _tool.decode(tool)
        except (msgspec.DecodeError, RecursionError):
            raise wrong_type(f"tools[{place}]", "a tool with a function that has a name") from None
        carried(tool, f"tools[{place}]")
    return tools


def take_tool_choice(fields: Fields, tools: list[Raw]) -> Raw | None:
    """Which tool must be called. None where there is none to choose from. Raises ``BadRequest``."""
    raw = fields.pop("tool_choice", None)
    if raw is None:
        return None
    choice = plain(raw, "tool_choice")
    if not isinstance(choice, dict) and not (isinstance(choice, str) and choice in _CHOICES):
        raise wrong_type("tool_choice", "'none', 'auto', 'required' or a tool's name in an object")
    if choice == "any":
        raw = Raw(b'"required"')
    return carried(raw, "tool_choice") if tools else None


def read_calls(wire: list[WireCall], place: int) -> list[ToolCall]:
    """The calls of message number ``place``. One without an id gets one that the same body gives it again."""
    places = [call.function.index if call.function.index is not None else call.index for call in wire]
    order = list(range(len(wire)))
    if None not in places:
        order.sort(key=lambda number: places[number] or 0)
    return [
        ToolCall(
            wire[number].id or f"call_{place}_{at}",
            wire[number].function.name,
            arguments(wire[number].function.arguments),
        )
        for at, number in enumerate(order)
    ]


def arguments(raw: Raw) -> str:
    """A call's arguments as the text of a JSON object; null, also as a text, is none. Raises ``BadRequest``."""
    data: str | bytes = bytes(raw)
    if data[:1] == b'"':
        data = _text.decode(data)
    if data in (b"null", "null"):  # some models write it for a tool that takes nothing
        data = b""
    found = json_object(data)
    if found is None:
        raise BadRequest("invalid tool call arguments", param="messages")
    return found.decode()
