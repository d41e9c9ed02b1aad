"""The turns of a Responses body: its items as messages."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from buffer.job import Part, TextPart, ToolCall
from gateway.dialects.errors import BadRequest
from gateway.dialects.fields import wrong_type
from gateway.dialects.media import audio, media
from gateway.dialects.text import dump, json_object
from gateway.dialects.turns import Turns

_ENCRYPTED_ELSEWHERE = "gAAAA"
"""How thinking begins that OpenAI encrypted: a blob that says nothing to anybody here."""
_WORDS = {"input_text", "output_text", "text", "summary_text", "reasoning_text"}


class _Sound(Struct):
    data: str
    format: str | None = None


class _Part(Struct):
    type: str = ""
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None
    input_audio: _Sound | None = None


class _Item(Struct):
    type: str = ""
    role: str = ""
    content: str | list[_Part] | None = None
    summary: list[_Part] | None = None
    encrypted_content: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | None = None
    input: str | None = None
    output: str | list[_Part] | None = None


_items = msgspec.json.Decoder(str | list[_Item])


def flat_name(namespace: str, name: str) -> str:
    """What engines, which have no namespaces, are told of a tool in one."""
    return f"{namespace}{name}" if namespace.endswith("__") else f"{namespace}__{name}"


def read_turns(instructions: str, raw: Raw | None, *, allow_links: bool) -> Turns:
    """The conversation, instructions first. Raises ``BadRequest``."""
    turns = Turns()
    if instructions:
        turns.system(instructions)
    if raw is None:
        return turns
    try:
        found = _items.decode(raw)
    except RecursionError:
        raise BadRequest("'input' is nested too deeply.", param="input") from None
    except msgspec.DecodeError as error:
        # Says which type was found where, and nothing of what it held.
        raise BadRequest(f"Invalid 'input': {error}", param="input") from None
    if isinstance(found, str):
        turns.user([TextPart(found)])
        return turns
    for place, item in enumerate(found):
        _item(turns, item, f"input[{place}]", allow_links)
    return turns


def _item(turns: Turns, item: _Item, where: str, allow_links: bool) -> None:
    match item.type or ("message" if item.role else ""):
        case "message":
            _message(turns, item, where, allow_links)
        case "reasoning":
            if text := _thoughts(item, where):
                turns.thought(text)
        case "function_call":
            turns.called(_call(item, where, item.arguments or ""))
        case "custom_tool_call":
            turns.called(_call(item, where, dump({"input": item.input or ""}).decode()))
        case "function_call_output" | "custom_tool_call_output":
            turns.result(item.call_id or "", _parts(item.output, f"{where}.output", allow_links))
        case "web_search_call":
            # It says that something was looked for, and not what was found.
            pass
        case "":
            raise BadRequest(f"Missing required parameter: '{where}.type'.", param=f"{where}.type")
        case "item_reference":
            raise BadRequest(
                "Nothing is stored here, so items cannot be referred to: send them as they are.", param=where
            )
        case kind:
            shown = kind[:40].encode("ascii", "backslashreplace").decode()
            raise BadRequest(f"An input item of type '{shown}' cannot be read here.", param=where)


def _message(turns: Turns, item: _Item, where: str, allow_links: bool) -> None:
    parts = _parts(item.content, f"{where}.content", allow_links)
    words = "\n".join(part.text for part in parts if isinstance(part, TextPart))
    match item.role:
        case "user":
            turns.user(parts)
        case "assistant":
            if words:
                turns.said(words)
        case "system" | "developer":
            turns.system(words)
        case _:
            raise BadRequest(
                f"Invalid value for '{where}.role'. Supported values are: 'assistant', 'developer', 'system', 'user'.",
                param=f"{where}.role",
            )


def _thoughts(item: _Item, where: str) -> str:
    """Ours is sent back in the field for encrypted thinking, which hides nothing, where the client asked for that."""
    kept = item.encrypted_content or ""
    if kept and not kept.startswith(_ENCRYPTED_ELSEWHERE):
        return kept
    parts = _parts(item.content, f"{where}.content", allow_links=False) or [
        TextPart(part.text) for part in item.summary or [] if part.text
    ]
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


def _call(item: _Item, where: str, arguments: str) -> ToolCall:
    if not item.call_id or not item.name:
        raise BadRequest(f"'{where}' must be a call with a call_id and a name.", param=where)
    found = json_object(arguments)
    if found is None:
        # A model's mistake that its client answered with a result: the conversation has to go on.
        found = dump({"arguments": arguments})
    name = flat_name(item.namespace, item.name) if item.namespace else item.name
    return ToolCall(item.call_id, name, found.decode())


def _parts(content: str | list[_Part] | None, where: str, allow_links: bool) -> list[Part]:
    if content is None:
        return []
    if isinstance(content, str):
        return [TextPart(content)] if content else []
    return [_part(part, f"{where}[{place}]", allow_links) for place, part in enumerate(content)]


def _part(part: _Part, where: str, allow_links: bool) -> Part:
    if part.type in _WORDS and part.text is not None:
        return TextPart(part.text)
    if part.type == "refusal" and part.refusal is not None:
        return TextPart(part.refusal)
    if part.type == "input_image" and part.image_url is not None:
        return media(part.image_url, allow_links=allow_links, param=where)
    if part.type == "input_audio" and part.input_audio is not None:
        return audio(part.input_audio.data, part.input_audio.format or "", where)
    if part.type in {"input_image", "input_file"}:
        raise BadRequest("Files cannot be read here: send an image as a data: URL, a text as text.", param=where)
    raise wrong_type(where, "a part of type 'input_text', 'output_text', 'input_image' or 'input_audio'")
