"""Pure: from the lines of Ollama's ``/api/chat`` to events."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from backends.answer import Answer
from backends.failures import early_end, from_payload
from backends.wire import Lines, LineTooLongError
from buffer.job import Event, Logprobs, Usage


class _Function(Struct):
    name: str = ""
    arguments: Raw | None = None


class _ToolCall(Struct):
    function: _Function
    id: str | None = None


class _Message(Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Line(Struct):
    message: _Message | None = None
    done: bool = False
    done_reason: str | None = None
    error: str | Raw | None = None
    logprobs: Raw | None = None
    prompt_eval_count: int | None = None
    prompt_eval_duration: int | None = None
    eval_count: int | None = None
    eval_duration: int | None = None
    load_duration: int | None = None


_decoder = msgspec.json.Decoder(_Line)


class OllamaReader:
    """Reads one answer. See ``backends.exchange.Reader``."""

    cut = False
    """Ollama is told of all stop texts, so it always ends by itself."""

    def __init__(self, name: str, answer: Answer) -> None:
        """``name``: the back end's, for what is said of errors."""
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
    def lively(self) -> bool:
        return self._answer.lively

    def feed(self, data: bytes) -> list[Event]:
        out: list[Event] = []
        try:
            lines = self._lines.feed(data)
        except LineTooLongError:
            raise early_end(self._name, "sent a line that is too long") from None
        for line in lines:
            if line and not self.over:
                self._line(self._decode(line), out)
        return out

    def flush(self) -> list[Event]:
        out: list[Event] = []
        rest = self._lines.flush()
        if rest and not self.over:
            try:
                self._line(_decoder.decode(rest), out)
            except (msgspec.DecodeError, UnicodeDecodeError):
                # A line cut short: an early end.
                rest = b""
        if not self.complete:
            raise early_end(self._name, "closed the connection before the answer was complete")
        return out

    def whole(self, body: bytes) -> list[Event]:
        """An answer sent as one JSON object, or an error sent with a good status."""
        return self.feed(body) + self.flush()

    def _decode(self, line: bytes) -> _Line:
        try:
            return _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        try:
            return _decoder.decode(line.decode("utf-8", "replace"))
        except msgspec.DecodeError:
            raise early_end(self._name, "sent something that is no JSON") from None

    def _line(self, line: _Line, out: list[Event]) -> None:
        self.seen += 1
        if line.error:
            error = line.error if isinstance(line.error, str) else msgspec.json.decode(line.error)
            raise from_payload(self._name, error)
        answer, message = self._answer, line.message or _Message()
        answer.reasoning(message.thinking or "", out)
        answer.content(message.content or "", out)
        for call in message.tool_calls or ():
            # Older ones number every call 0, and calls come whole, so each is one of its own.
            answer.tool(self._calls, call.id or "", call.function.name, _arguments(call.function.arguments), out)
            self._calls += 1
        if line.logprobs is not None:
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
                prompt=line.prompt_eval_count or 0,
                completion=line.eval_count or 0,
                prompt_ns=line.prompt_eval_duration,
                completion_ns=line.eval_duration,
                load_ns=line.load_duration,
            )
        )


def _arguments(raw: Raw | None) -> str:
    """The object's own text, with its keys in their order; a text that holds JSON is taken as that."""
    if raw is None:
        return "{}"
    text = bytes(raw).decode("utf-8", "replace")
    if text.startswith('"'):
        return str(msgspec.json.decode(raw)) or "{}"
    return "{}" if text == "null" else text
