"""The Response object, which whole answers are and every stream's first and last events hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from buffer.job import Chat, End, Failure, Message, Usage
from gateway.dialects.blocks import Block, Blocks
from gateway.dialects.errors import failure_of, sentence
from gateway.dialects.text import dump, one_line, quote

ASKED = "responses"
"""Under this name ``Asked`` travels in ``Chat.extra``; no engine is told of it."""
_EFFORTS = {"off": "none", "low": "low", "medium": "medium", "high": "high", "max": "xhigh"}
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_PREFIXES = {"thinking": "rs", "text": "msg", "call": "fc"}


class Asked(Struct, omit_defaults=True):
    """What of a request only its answer needs."""

    instructions: int = 0
    """Characters of them, with which the first message begins."""
    namespaces: dict[str, tuple[str, str]] = {}
    """Namespace and name of each tool that has one, by the name that the model knows it under."""
    metadata: Raw = Raw(b"{}")
    encrypted: bool = False
    """The client wants thinking in the field that OpenAI encrypts, to send it back from there."""


_asked = msgspec.json.Decoder(Asked)


class Responding:
    """An answer on its way: its items and the object around them."""

    def __init__(self, chat: Chat, *, id: str, created: float) -> None:
        self._id = id
        asked = _asked.decode(chat.extra[ASKED]) if ASKED in chat.extra else Asked()
        self._namespaces = asked.namespaces
        self._encrypted = asked.encrypted
        self._head = b'{"id":%b,"object":"response","created_at":%d,"background":false,"status":' % (
            quote(f"resp_{id}"),
            int(created),
        )
        self._tail = _tail(chat, asked)
        self.blocks = Blocks(chat, id)

    @property
    def finished(self) -> bool:
        return self.blocks.finished

    def failure(self, end: End) -> Failure | None:
        """A failure after the whole answer is none."""
        return None if self.finished else failure_of(end)

    @property
    def ending(self) -> bytes:
        """How a whole answer ended, as the word of its status."""
        return b"incomplete" if self.blocks.reason in _INCOMPLETE else b"completed"

    def item_id(self, block: Block) -> bytes:
        return quote(f"{_PREFIXES[block.kind]}_{self._id}_{block.number}")

    def call(self, block: Block) -> bytes:
        """The members that name a call."""
        namespace, name = self._namespaces.get(block.name, ("", block.name))
        found = b'"call_id":%b,"name":%b' % (quote(block.call_id), quote(name))
        return found + b',"namespace":' + quote(namespace) if namespace else found

    def item(self, block: Block) -> bytes:
        """A block as the item of an answer."""
        item_id = self.item_id(block)
        text = quote(block.text)
        match block.kind:
            case "thinking":
                encrypted = b',"encrypted_content":' + text if self._encrypted else b""
                return (
                    b'{"id":%b,"type":"reasoning","status":"completed",'
                    b'"summary":[{"type":"summary_text","text":%b}]%b}' % (item_id, text, encrypted)
                )
            case "text":
                return b'{"id":%b,"type":"message","status":"completed","role":"assistant","content":[%b]}' % (
                    item_id,
                    text_part(text),
                )
            case _:
                return b'{"id":%b,"type":"function_call","status":"completed","arguments":%b,%b}' % (
                    item_id,
                    text,
                    self.call(block),
                )

    def at_work(self) -> bytes:
        """The object while nothing is there yet."""
        return self._object(b'"in_progress","completed_at":null,"error":null,"incomplete_details":null', [], b"null")

    def whole(self, now: float) -> bytes:
        """The object of a whole answer."""
        why = _INCOMPLETE.get(self.blocks.reason)
        at = b'"%b","completed_at":%b,"error":null,"incomplete_details":%b' % (
            self.ending,
            b"null" if why else b"%d" % int(now),
            dump({"reason": why}) if why else b"null",
        )
        return self._object(at, self.blocks.blocks, _usage(self.blocks.usage, self.blocks.pieces))

    def failed(self, failure: Failure) -> bytes:
        """The object of an answer that broke off, with what of it was whole."""
        at = b'"failed","completed_at":null,"error":{"code":%b,"message":%b},"incomplete_details":null' % (
            quote(_code(failure)),
            quote(sentence(failure.message)),
        )
        return self._object(at, [block for block in self.blocks.blocks if block.closed], b"null")

    def _object(self, status: bytes, blocks: Sequence[Block], usage: bytes) -> bytes:
        items = b",".join(self.item(block) for block in blocks)
        return b'%b%b,"output":[%b],"usage":%b%b' % (self._head, status, items, usage, self._tail)


def shape(chat: Chat) -> Chat:
    """What of a chat its answer needs: of the prompt, what OpenAI says back."""
    asked = _asked.decode(chat.extra[ASKED]) if ASKED in chat.extra else Asked()
    first = Message("system", chat.messages[0].text()[: asked.instructions]) if asked.instructions else None
    return msgspec.structs.replace(
        chat,
        messages=[first] if first else [],
        stop=[],
        keep_alive=None,
        options={},
        extra={name: chat.extra[name] for name in (ASKED, "user") if name in chat.extra},
    )


def text_part(text: bytes) -> bytes:
    """``text``: in quotes."""
    return b'{"type":"output_text","text":%b,"annotations":[],"logprobs":[]}' % text


def _usage(told: Usage | None, pieces: int) -> bytes:
    """``pieces`` stands for the answer's tokens where the engine did not count them."""
    told = told or Usage(0, pieces)
    return dump(
        {
            "input_tokens": told.prompt,
            "input_tokens_details": {"cached_tokens": told.cached or 0, "cache_write_tokens": 0},
            "output_tokens": told.completion,
            "output_tokens_details": {"reasoning_tokens": told.reasoning or 0},
            "total_tokens": told.prompt + told.completion,
        }
    )


def _code(failure: Failure) -> str:
    """Clients know a few words only, and try again after any but these."""
    if failure.code == "context_length_exceeded":
        return failure.code
    if failure.status == 429:
        return "rate_limit_exceeded"
    return "server_error" if failure.status >= 499 else "invalid_prompt"


def _tail(chat: Chat, asked: Asked) -> bytes:
    """What the client asked for, as OpenAI says it back."""
    first = chat.messages[0].text()[: asked.instructions] if asked.instructions and chat.messages else ""
    out = [b',"instructions":', quote(first) if first else b"null"]
    out += (b',"model":', quote(chat.model), b',"tools":[', b",".join(_flat(tool) for tool in chat.tools), b"]")
    out += (b',"tool_choice":', _choice(chat), b',"text":{"format":', _format(chat))
    out += (b'},"metadata":', one_line(bytes(asked.metadata).decode()))
    out.append(b',"user":' + one_line(bytes(chat.extra["user"]).decode()) if "user" in chat.extra else b"")
    rest = {
        "parallel_tool_calls": chat.parallel_tool_calls is not False,
        "temperature": chat.sampling.temperature,
        "top_p": chat.sampling.top_p,
        "max_output_tokens": chat.max_tokens,
        "previous_response_id": None,
        "reasoning": {"effort": _EFFORTS.get(chat.think), "summary": None},
        "store": False,
        "truncation": "auto" if chat.truncate else "disabled",
    }
    return b"".join([*out, b",", dump(rest)[1:]])


def _flat(tool: Raw) -> bytes:
    """A function in OpenAI's older form in the newer: the one has it one level deeper."""
    function = msgspec.json.decode(tool, type=dict[str, Raw])["function"]
    return b'{"type":"function",' + one_line(bytes(function).decode())[1:]


def _choice(chat: Chat) -> bytes:
    if chat.tool_choice is None:
        return b'"auto"'
    choice: Any = msgspec.json.decode(chat.tool_choice)
    if isinstance(choice, str):
        return quote(choice)
    return b'{"type":"function","name":%b}' % quote(choice["function"]["name"])


def _format(chat: Chat) -> bytes:
    wanted = chat.format
    if wanted is None:
        return b'{"type":"text"}'
    if wanted.schema is None:
        return b'{"type":"json_object"}'
    strict = b"null" if wanted.strict is None else dump(wanted.strict)
    schema = one_line(bytes(wanted.schema).decode())
    return b'{"type":"json_schema","name":%b,"strict":%b,"schema":%b}' % (quote(wanted.name), strict, schema)
