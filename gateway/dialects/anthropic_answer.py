"""Anthropic's answers: a message in one object, or as a stream of events."""

from __future__ import annotations

from collections.abc import Sequence

from buffer.job import Chat, End, Event, Failure, Usage
from gateway.dialects.blocks import Block, Blocks, Step
from gateway.dialects.errors import failure_of, sentence
from gateway.dialects.text import dump, quote
from gateway.prompt import prompt_parts
from policy.estimate import BYTES_PER_TOKEN
from policy.prefix import chain

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
NO_THREADS = "thread_unsupported_request"
"""Code of the refusal of a conversation that the server is to keep."""
_REASONS = {"length": b'"max_tokens"', "content_filter": b'"refusal"'}
_BAD_CALL = Failure("The model called a tool with arguments that are not a JSON object.", 502, "upstream_error")
_PING = b'event: ping\ndata: {"type":"ping"}\n\n'


def error(failure: Failure, request_id: str) -> bytes:
    """The body of an answer that failed, and the data of the event that ends a stream."""
    kind = _TYPES.get(failure.status, "api_error" if failure.status >= 500 else "invalid_request_error")
    # By these details the client goes on without what it cannot have, where it was told to.
    details = b',"details":{"error_code":"%b","unsupported":["thread"]}' % NO_THREADS.encode()
    return b'{"type":"error","error":{"type":"%b","message":%b%b},"request_id":%b}' % (
        kind.encode(),
        quote(sentence(failure.message)),
        details if failure.code == NO_THREADS else b"",
        quote(request_id),
    )


def token_count(chat: Chat, tokens_per_byte: float = 1 / BYTES_PER_TOKEN) -> int:
    """About how many tokens its prompt has: nobody but an engine could count them."""
    links = chain(b"", prompt_parts(chat), tokens_per_byte=tokens_per_byte)
    return links[-1].tokens if links else 1


class _Message:
    """What streams and whole answers have in common."""

    def __init__(self, chat: Chat, *, id: str, request_id: str, input_tokens: int) -> None:
        self._chat = chat
        self._known_tokens = input_tokens
        self._request_id = request_id
        # Nobody but us could check it; clients that got none send the thinking back as words, or not at all.
        self._signature = quote(id)
        self._head = b'{"id":%b,"type":"message","role":"assistant","model":%b,"content":[' % (
            quote(f"msg_{id}"),
            quote(chat.model),
        )
        self._blocks = Blocks(chat, id)

    @property
    def finished(self) -> bool:
        return self._blocks.finished

    def _close(self, end: End) -> tuple[Failure | None, list[Step]]:
        """Why there is no answer, if so, and the last steps. A failure after the whole answer is none."""
        if not self.finished and (failure := failure_of(end)) is not None:
            return failure, []
        steps = self._blocks.end()
        return (_BAD_CALL if self._blocks.has_broken_calls else None), steps

    def _input_tokens(self) -> int:
        return self._known_tokens or token_count(self._chat)

    def _reason(self) -> bytes:
        reason = self._blocks.reason
        return _REASONS.get(reason) or (b'"tool_use"' if self._blocks.has_calls else b'"end_turn"')

    def _usage(self) -> bytes:
        told = self._blocks.usage or Usage(self._input_tokens(), self._blocks.pieces)
        return _usage(told.prompt, told.cached or 0, told.completion, told.reasoning)


def _usage(prompt: int, cached: int, completion: int, reasoning: int | None = None) -> bytes:
    """Anthropic counts the prompt's cached tokens apart from the others."""
    counts: dict[str, object] = {
        "input_tokens": max(prompt - cached, 0),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": completion,
    }
    if reasoning is not None:
        counts["output_tokens_details"] = {"thinking_tokens": reasoning}
    return dump(counts)


class Stream(_Message):
    """A streamed answer. How its events are grouped changes nothing in it."""

    def __init__(
        self, chat: Chat, *, id: str, created: float = 0.0, request_id: str = "", input_tokens: int = 0
    ) -> None:
        """``input_tokens``: about how many the prompt has; 0: to be counted."""
        super().__init__(chat, id=id, request_id=request_id, input_tokens=input_tokens)
        self._started = False

    def heartbeat(self, now: float) -> bytes:
        return _PING

    def feed(self, events: Sequence[Event], now: float) -> bytes:
        if not events:
            return b""
        out = self._start()
        self._tell(self._blocks.feed(events), out)
        return b"".join(out)

    def end(self, end: End, now: float, *, queued_s: float = 0.0) -> bytes:
        """The last bytes. ``queued_s`` is not told."""
        failure, steps = self._close(end)
        if failure is not None:
            return _event(b"error", error(failure, self._request_id))
        out = self._start()
        self._tell(steps, out)
        out.append(
            _event(
                b"message_delta",
                b'{"type":"message_delta","delta":{"stop_reason":%b,"stop_sequence":null},"usage":%b}'
                % (self._reason(), self._usage()),
            )
        )
        out.append(_event(b"message_stop", b'{"type":"message_stop"}'))
        return b"".join(out)

    def _start(self) -> list[bytes]:
        if self._started:
            return []
        self._started = True
        usage = _usage(self._input_tokens(), 0, 0)
        message = self._head + b'],"stop_reason":null,"stop_sequence":null,"usage":%b}' % usage
        return [_event(b"message_start", b'{"type":"message_start","message":%b}' % message)]

    def _tell(self, steps: Sequence[Step], out: list[bytes]) -> None:
        for step in steps:
            block = step.block
            if block.broken:
                continue
            if step.what == "open":
                data = b'{"type":"content_block_start","index":%d,"content_block":%b}'
                out.append(_event(b"content_block_start", data % (block.number, _empty(block))))
            elif step.what == "more":
                self._delta(block, _delta(block, step.text), out)
            else:
                if block.kind == "thinking":
                    self._delta(block, b'{"type":"signature_delta","signature":%b}' % self._signature, out)
                out.append(_event(b"content_block_stop", b'{"type":"content_block_stop","index":%d}' % block.number))

    def _delta(self, block: Block, delta: bytes, out: list[bytes]) -> None:
        data = b'{"type":"content_block_delta","index":%d,"delta":%b}' % (block.number, delta)
        out.append(_event(b"content_block_delta", data))


def _event(name: bytes, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name, data)


def _empty(block: Block) -> bytes:
    match block.kind:
        case "thinking":
            return b'{"type":"thinking","thinking":"","signature":""}'
        case "text":
            return b'{"type":"text","text":""}'
        case _:
            return b'{"type":"tool_use","id":%b,"name":%b,"input":{}}' % (quote(block.call_id), quote(block.name))


def _delta(block: Block, text: str) -> bytes:
    match block.kind:
        case "thinking":
            return b'{"type":"thinking_delta","thinking":%b}' % quote(text)
        case "text":
            return b'{"type":"text_delta","text":%b}' % quote(text)
        case _:
            return b'{"type":"input_json_delta","partial_json":%b}' % quote(text)


class Whole(_Message):
    """An answer in one object."""

    def __init__(
        self, chat: Chat, *, id: str, created: float = 0.0, request_id: str = "", input_tokens: int = 0
    ) -> None:
        """``input_tokens``: about how many the prompt has; 0: to be counted."""
        super().__init__(chat, id=id, request_id=request_id, input_tokens=input_tokens)

    def feed(self, events: Sequence[Event], now: float) -> bytes:
        self._blocks.feed(events)
        return b""

    def end(self, end: End, now: float, *, queued_s: float = 0.0) -> tuple[int, bytes]:
        """HTTP status and body."""
        failure, _ = self._close(end)
        if failure is not None:
            return failure.status, error(failure, self._request_id)
        blocks = b",".join(self._block(block) for block in self._blocks.blocks)
        return 200, self._head + b'%b],"stop_reason":%b,"stop_sequence":null,"usage":%b}' % (
            blocks,
            self._reason(),
            self._usage(),
        )

    def _block(self, block: Block) -> bytes:
        match block.kind:
            case "thinking":
                return b'{"type":"thinking","thinking":%b,"signature":%b}' % (quote(block.text), self._signature)
            case "text":
                return b'{"type":"text","text":%b}' % quote(block.text)
            case _:
                return b'{"type":"tool_use","id":%b,"name":%b,"input":%b}' % (
                    quote(block.call_id),
                    quote(block.name),
                    block.text.encode(),
                )
