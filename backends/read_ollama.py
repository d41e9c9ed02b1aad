"""Pure: from the lines of Ollama's ``/api/chat`` and ``/api/generate`` to events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from backends.answer import Answer
from backends.base import BackendError
from backends.chunk import NOTHING, plausible
from backends.failures import early_end, from_payload
from backends.wire import Lines, LineTooLongError
from buffer.job import Event, Logprobs, Usage


class _Function(Struct):
    name: str = ""
    arguments: Raw = NOTHING


class _ToolCall(Struct):
    function: _Function
    id: str | None = None


class _Message(Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Line(Struct):
    message: _Message | None = None
    response: str | None = None
    """Of ``/api/generate``, in place of a message."""
    thinking: str | None = None
    done: bool = False
    done_reason: str | None = None
    error: Any = None
    logprobs: Raw = NOTHING
    prompt_eval_count: int | None = None
    prompt_eval_duration: int | None = None
    eval_count: int | None = None
    eval_duration: int | None = None
    load_duration: int | None = None


_decoder = msgspec.json.Decoder(_Line)


class OllamaReader:
    """Reads one answer. See ``backends.reader.Reader``."""

    def __init__(self, name: str, answer: Answer) -> None:
        """``name``: the back end's, for what is said of errors."""
        self.failure: BackendError | None = None
        self.over = False
        self.seen = 0
        self._name = name
        self._answer = answer
        self._lines = Lines()
        self._calls = 0

    @property
    def complete(self) -> bool:
        return self._answer.finished

    @property
    def cut(self) -> bool:
        return self._answer.finished and not self.over

    @property
    def lively(self) -> bool:
        return self._answer.lively

    def plain(self, data: bytes) -> list[str]:
        return []

    def feed(self, data: bytes) -> list[Event]:
        try:
            lines = self._lines.feed(data)
        except LineTooLongError:
            self.failure = early_end(self._name, "sent a line that is too long")
            return []
        return self._read(lines)

    def flush(self) -> list[Event]:
        rest = self._lines.flush()
        # What is cut short in its last line is reported as an early end, not as bad JSON.
        return self._read([rest] if _decode(rest) is not None else [], last=True)

    def whole(self, body: bytes) -> list[Event]:
        """An answer sent as one JSON object, or an error sent with a good status."""
        return self._read([body], last=True)

    def _read(self, lines: Sequence[bytes], *, last: bool = False) -> list[Event]:
        out: list[Event] = []
        try:
            for text in lines:
                if not text or self.over:
                    continue
                line = _decode(text)
                if line is None:
                    raise early_end(self._name, "sent something that is no JSON")
                self._line(line, out)
            if last and not self.complete:
                raise early_end(self._name, "closed the connection before the answer was complete")
        except BackendError as error:
            self.failure = error
        return out

    def _line(self, line: _Line, out: list[Event]) -> None:
        self.seen += 1
        if line.error:
            raise from_payload(self._name, line.error)
        answer, message = self._answer, line.message or _Message(line.response, line.thinking)
        answer.reasoning(message.thinking or "", out)
        answer.content(message.content or "", out)
        for call in message.tool_calls or ():
            # Older ones number every call 0, and calls come whole, so each is one of its own.
            answer.tool(self._calls, call.id or "", call.function.name, _arguments(call.function.arguments), out)
            self._calls += 1
        told = bytes(line.logprobs).decode("utf-8", "replace")
        if told not in ("null", "[]") and (message.content or not message.thinking or answer.shows_thinking):
            out.append(Logprobs(told))
        if line.done:
            self._done(line, out)

    def _done(self, line: _Line, out: list[Event]) -> None:
        if not line.done_reason and line.eval_count is None:
            # So it ends when its runner has died.
            raise early_end(self._name, "ended the answer without a reason")
        self.over = True
        self._answer.finish(line.done_reason or "stop", out)
        out.append(
            Usage(
                prompt=plausible(line.prompt_eval_count) or 0,
                completion=plausible(line.eval_count) or 0,
                prompt_ns=plausible(line.prompt_eval_duration),
                completion_ns=plausible(line.eval_duration),
                load_ns=plausible(line.load_duration),
            )
        )


def _decode(line: bytes) -> _Line | None:
    """None for what is no JSON object of this form."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return _decoder.decode(line.decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None


def _arguments(raw: Raw) -> str:
    """The object's own text, with its keys in their order; a text that holds JSON is taken as that."""
    text = bytes(raw).decode("utf-8", "replace")
    if text.startswith('"'):
        try:
            return str(msgspec.json.decode(raw)) or "{}"
        except (msgspec.DecodeError, RecursionError):
            return "{}"
    return "{}" if text == "null" else text
