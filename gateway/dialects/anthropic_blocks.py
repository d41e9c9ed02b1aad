"""The turns of a Messages body: its blocks as messages."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from buffer.job import Part, TextPart, ToolCall
from gateway.dialects.errors import BadRequest
from gateway.dialects.fields import wrong_type
from gateway.dialects.media import media
from gateway.dialects.text import one_line
from gateway.dialects.tools import arguments
from gateway.dialects.turns import Turns, content

_BILLING = "x-anthropic-billing-header:"
"""How a block begins that Claude Code puts before its instructions for the bill: no word to a model, and another one in
each request, so that no engine would find the beginning of a prompt in its cache."""


class _Source(Struct):
    type: str = ""
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    content: Raw = Raw(b"null")


class _Block(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    source: _Source | str | None = None
    title: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = Raw(b"{}")
    tool_use_id: str | None = None
    tool_name: str | None = None
    content: Raw = Raw(b"null")


class _Message(Struct):
    role: str
    content: str | list[_Block]


_messages = msgspec.json.Decoder(list[_Message])
_words = msgspec.json.Decoder(str | list[_Block] | None)


def read_turns(system: Raw | None, raw: Raw, *, allow_links: bool) -> Turns:
    """The conversation, instructions first. Raises ``BadRequest``."""
    try:
        wire = _messages.decode(raw)
    except RecursionError:
        raise BadRequest("'messages' is nested too deeply.", param="messages") from None
    except msgspec.DecodeError as error:
        # Says which type was found where, and nothing of what it held.
        raise BadRequest(f"messages: {error}", param="messages") from None
    turns = Turns()
    if system is not None and (text := _system(_blocks(system, "system"))):
        turns.system(text)
    for place, message in enumerate(wire):
        where = f"messages.{place}"
        blocks = [_Block("text", message.content)] if isinstance(message.content, str) else message.content
        match message.role.lower():
            case "user":
                _user(turns, blocks, where, allow_links)
            case "assistant":
                _assistant(turns, blocks, where)
            case "system":
                turns.system(_system(blocks))
            case _:
                raise BadRequest(
                    f"{where}.role: Input should be 'user', 'assistant' or 'system'", param=f"{where}.role"
                )
    return turns


def _blocks(raw: Raw, where: str) -> list[_Block]:
    try:
        found = _words.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise wrong_type(where, "a string or an array of blocks") from None
    if isinstance(found, str):
        return [_Block("text", found)]
    return found or []


def _system(blocks: Sequence[_Block]) -> str:
    texts = [block.text for block in blocks if block.text and not block.text.startswith(_BILLING)]
    return "\n\n".join(texts)


def _user(turns: Turns, blocks: Sequence[_Block], where: str, allow_links: bool) -> None:
    parts: list[Part] = []
    results = False
    for place, block in enumerate(blocks):
        at = f"{where}.content.{place}"
        if block.type == "tool_result":
            turns.result(block.tool_use_id or "", _parts(block.content, at, allow_links))
            results = True
        elif block.type.endswith("_tool_result"):
            turns.result(block.tool_use_id or "", [TextPart(_json(block.content))])
            results = True
        else:
            parts += _part(block, at, allow_links)
    if parts or not results:
        turns.user(parts)


def _assistant(turns: Turns, blocks: Sequence[_Block], where: str) -> None:
    results = []
    for place, block in enumerate(blocks):
        at = f"{where}.content.{place}"
        if block.type == "text" and block.text is not None:
            if block.text:
                turns.said(block.text)
        elif block.type == "thinking":
            if block.thinking:
                turns.thought(block.thinking)
        elif block.type in {"tool_use", "server_tool_use", "mcp_tool_use"}:
            if not block.id or not block.name:
                raise BadRequest(f"{at}: a {block.type} block needs an id and a name", param=at)
            turns.called(ToolCall(block.id, block.name, arguments(block.input)))
        elif block.type.endswith("_tool_result"):
            results.append(block)
        elif block.type != "redacted_thinking":
            # Thinking that was encrypted elsewhere says nothing to anybody here.
            raise _unknown(block, at)
    for block in results:
        turns.result(block.tool_use_id or "", [TextPart(_json(block.content))])


def _parts(raw: Raw, where: str, allow_links: bool) -> list[Part]:
    found: list[Part] = []
    for place, block in enumerate(_blocks(raw, f"{where}.content")):
        found += _part(block, f"{where}.content.{place}", allow_links)
    return found


def _part(block: _Block, where: str, allow_links: bool) -> list[Part]:
    match block.type:
        case "text" if block.text is not None:
            return [TextPart(block.text)]
        case "image" if isinstance(block.source, _Source):
            return [_image(block.source, where, allow_links)]
        case "document" if isinstance(block.source, _Source):
            return _document(block, block.source, where, allow_links)
        case "search_result":
            head = [text for text in (block.title, block.source) if isinstance(text, str) and text]
            return [TextPart("\n".join(head)), *_parts(block.content, where, allow_links)]
        case "tool_reference" if block.tool_name is not None:
            return [TextPart(block.tool_name)]
        case _:
            raise _unknown(block, where)


def _image(source: _Source, where: str, allow_links: bool) -> Part:
    if source.type == "base64" and source.data is not None:
        prefix = f"data:{source.media_type};base64," if source.media_type else ""
        return media(prefix + source.data, allow_links=False, param=where)
    if source.type == "url" and source.url is not None:
        return media(source.url, allow_links=allow_links, param=where)
    raise BadRequest(f"{where}.source: expected a source of type 'base64' or 'url'", param=f"{where}.source")


def _document(block: _Block, source: _Source, where: str, allow_links: bool) -> list[Part]:
    title: list[Part] = [TextPart(block.title)] if block.title else []
    if source.type == "text" and source.data is not None:
        return [*title, TextPart(source.data)]
    if source.type == "content":
        return [*title, *_parts(source.content, f"{where}.source", allow_links)]
    raise BadRequest(f"{where}.source: only documents of plain text can be read here", param=f"{where}.source")


def _json(raw: Raw) -> str:
    """A result whose form only its tool knows, as its model would have been shown it."""
    data = bytes(raw)
    if data[:1] == b'"':
        blocks = _blocks(raw, "content")
        return str(content([TextPart(block.text or "") for block in blocks]))
    return one_line(data.decode()).decode()


def _unknown(block: _Block, where: str) -> BadRequest:
    shown = block.type[:40].encode("ascii", "backslashreplace").decode()
    return BadRequest(f"{where}: a block of type '{shown}' cannot be read here", param=where)
