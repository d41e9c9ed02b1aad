"""OpenAI's Responses: an answer in one object, or as a stream of numbered events."""

from __future__ import annotations

from collections.abc import Sequence

from buffer.job import Chat, End, Event
from gateway.dialects.blocks import Block, Step
from gateway.dialects.openai_answer import error
from gateway.dialects.responses_object import Responding, text_part
from gateway.dialects.text import quote


class Whole:
    """An answer in one object."""

    def __init__(self, chat: Chat, *, id: str, created: float) -> None:
        self._answer = Responding(chat, id=id, created=created)

    @property
    def finished(self) -> bool:
        return self._answer.finished

    def feed(self, events: Sequence[Event], now: float) -> bytes:
        self._answer.blocks.feed(events)
        return b""

    def end(self, end: End, now: float, *, queued_s: float = 0.0) -> tuple[int, bytes]:
        """HTTP status and body. ``queued_s`` is not told."""
        failure = self._answer.failure(end)
        if failure is not None:
            return failure.status, error(failure)
        self._answer.blocks.end()
        return 200, self._answer.whole(now)


class Stream:
    """A streamed answer. How its events are grouped changes nothing in it but the instants, in seconds since 1970."""

    def __init__(self, chat: Chat, *, id: str, created: float) -> None:
        self._answer = Responding(chat, id=id, created=created)
        self._count = 0

    @property
    def finished(self) -> bool:
        return self._answer.finished

    def heartbeat(self, now: float) -> bytes:
        """Keeps a waiting connection open; every client's parser skips it."""
        return b": keep-alive\n\n"

    def feed(self, events: Sequence[Event], now: float) -> bytes:
        if not events:
            return b""
        out = self._start()
        self._tell(self._answer.blocks.feed(events), out)
        return b"".join(out)

    def end(self, end: End, now: float, *, queued_s: float = 0.0) -> bytes:
        """The last bytes. ``queued_s`` is not told. There is no ``[DONE]`` here."""
        out = self._start()
        failure = self._answer.failure(end)
        if failure is not None:
            out.append(self._event(b"response.failed", b'"response":' + self._answer.failed(failure)))
            return b"".join(out)
        self._tell(self._answer.blocks.end(), out)
        out.append(self._event(b"response." + self._answer.ending, b'"response":' + self._answer.whole(now)))
        return b"".join(out)

    def _start(self) -> list[bytes]:
        if self._count:
            return []
        answer = b'"response":' + self._answer.at_work()
        return [self._event(b"response.created", answer), self._event(b"response.in_progress", answer)]

    def _event(self, kind: bytes, members: bytes) -> bytes:
        number = self._count
        self._count += 1
        return b'event: %b\ndata: {"type":"%b","sequence_number":%d,%b}\n\n' % (kind, kind, number, members)

    def _tell(self, steps: Sequence[Step], out: list[bytes]) -> None:
        for step in steps:
            match step.what:
                case "open":
                    self._open(step.block, out)
                case "more":
                    self._more(step.block, step.text, out)
                case _:
                    self._close(step.block, out)

    def _open(self, block: Block, out: list[bytes]) -> None:
        item_id = self._answer.item_id(block)
        added = b'"output_index":%d,"item":' % block.number
        at = _at(block, item_id)
        match block.kind:
            case "thinking":
                item = b'{"id":%b,"type":"reasoning","status":"in_progress","summary":[]}' % item_id
                out.append(self._event(b"response.output_item.added", added + item))
                part = b',"summary_index":0,"part":{"type":"summary_text","text":""}'
                out.append(self._event(b"response.reasoning_summary_part.added", at + part))
            case "text":
                item = b'{"id":%b,"type":"message","status":"in_progress","role":"assistant","content":[]}' % item_id
                out.append(self._event(b"response.output_item.added", added + item))
                part = b',"content_index":0,"part":' + text_part(b'""')
                out.append(self._event(b"response.content_part.added", at + part))
            case _:
                item = b'{"id":%b,"type":"function_call","status":"in_progress","arguments":"",%b}' % (
                    item_id,
                    self._answer.call(block),
                )
                out.append(self._event(b"response.output_item.added", added + item))

    def _more(self, block: Block, text: str, out: list[bytes]) -> None:
        at = _at(block, self._answer.item_id(block))
        delta = b',"delta":' + quote(text)
        match block.kind:
            case "thinking":
                out.append(self._event(b"response.reasoning_summary_text.delta", at + b',"summary_index":0' + delta))
            case "text":
                more = at + b',"content_index":0' + delta + b',"logprobs":[]'
                out.append(self._event(b"response.output_text.delta", more))
            case _:
                out.append(self._event(b"response.function_call_arguments.delta", at + delta))

    def _close(self, block: Block, out: list[bytes]) -> None:
        at = _at(block, self._answer.item_id(block))
        text = quote(block.text)
        match block.kind:
            case "thinking":
                at += b',"summary_index":0'
                out.append(self._event(b"response.reasoning_summary_text.done", at + b',"text":' + text))
                part = b',"part":{"type":"summary_text","text":%b}' % text
                out.append(self._event(b"response.reasoning_summary_part.done", at + part))
            case "text":
                at += b',"content_index":0'
                done = at + b',"text":' + text + b',"logprobs":[]'
                out.append(self._event(b"response.output_text.done", done))
                out.append(self._event(b"response.content_part.done", at + b',"part":' + text_part(text)))
            case _:
                named = b',"name":%b,"arguments":%b' % (quote(block.name), text)
                out.append(self._event(b"response.function_call_arguments.done", at + named))
        item = b'"output_index":%d,"item":%b' % (block.number, self._answer.item(block))
        out.append(self._event(b"response.output_item.done", item))


def _at(block: Block, item_id: bytes) -> bytes:
    return b'"item_id":%b,"output_index":%d' % (item_id, block.number)
