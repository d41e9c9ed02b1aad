"""Pure: from the bytes of a chat completion or a completion, streamed or whole, to events, whatever engine sent it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from backends.answer import Answer
from backends.base import BackendError
from backends.chunk import (
    Around,
    Choice,
    Chunk,
    Counts,
    Delta,
    Function,
    Metrics,
    Timings,
    arguments_of,
    decode_chunk,
    plain_words,
    plausible,
    text_of,
)
from backends.failures import early_end, from_payload
from backends.token_logprobs import told as told_logprobs
from backends.wire import Events, LineTooLongError
from buffer.job import Content, Event, Logprobs, Origin, Usage

N = TypeVar("N", int, float)

_NO_COUNTS, _NO_TIMINGS, _NO_METRICS, _NO_USAGE = Counts(), Timings(), Metrics(), Usage(0, 0)
_BROKEN_REASONS = frozenset({"abort", "error"})
"""vLLM ends answers so when it is shut down, with an end that looks proper otherwise."""


class CompletionReader:
    """Reads one request's ``answers``. See ``backends.reader.Reader``."""

    def __init__(
        self, name: str, answers: Sequence[Answer], decode: Callable[[bytes], Chunk | None] = decode_chunk
    ) -> None:
        """``name``: the back end's, for what is said of errors. ``decode``: None of what is no message at all."""
        self.failure: BackendError | None = None
        self.over = False
        self.complete = False
        self.lively = False
        self.seen = 0
        self._name = name
        self._answers = answers
        self._first = answers[0]
        self._decode = decode
        self._around = Around(decode)
        self._events = Events()
        self._between = True
        """No event has begun."""
        self._ended: set[int] = set()
        self._usage: Usage | None = None
        self._told: Usage | None = None
        self._fingerprint = ""
        self._begun = False

    @property
    def cut(self) -> bool:
        return self.complete and len(self._ended) < len(self._answers)

    @property
    def parsed(self) -> bool:
        """The engine has told thinking from answer by itself."""
        return any(answer.parsed for answer in self._answers)

    def feed(self, data: bytes) -> list[Event]:
        if words := self.plain(data):
            return list(map(Content, words))
        try:
            payloads = self._events.feed(data)
        except LineTooLongError:
            self.failure = early_end(self._name, "sent a line that is too long")
            return []
        self._between = self._events.between
        return self._read(payloads)

    def plain(self, data: bytes) -> list[str]:
        if not (self._between and self._first.plain):
            return []
        words = self._around.all(data)
        self.seen += len(words)
        return words

    def flush(self) -> list[Event]:
        # What is cut short in its last line is reported as an early end, not as bad JSON.
        rest = [one for one in self._events.flush() if one.strip() == b"[DONE]" or self._decode(one) is not None]
        return self._read(rest, unless_complete="closed the connection before the answer was complete")

    def whole(self, body: bytes) -> list[Event]:
        return self._read([body], unless_complete="sent an answer without an end")

    def _read(self, payloads: Sequence[bytes], *, unless_complete: str = "") -> list[Event]:
        out: list[Event] = []
        at, size = 0, len(payloads)
        try:
            while at < size:
                if self._first.plain and (words := self._around.begin(payloads[at:])):
                    out += map(Content, words)
                    self.seen += len(words)
                    at += len(words)
                else:
                    self._payload(payloads[at], out)
                    at += 1
            if unless_complete and not self.complete:
                raise early_end(self._name, unless_complete)
        except BackendError as error:
            self.failure = error
        if self.over or unless_complete:
            self._tell(out)
        return out

    def _tell(self, out: list[Event]) -> None:
        """The counts, once every answer has ended, and again if they change."""
        if self.complete and self._usage is not None and self._usage != self._told:
            self._told = self._usage
            out.append(self._usage)

    def _payload(self, payload: bytes, out: list[Event]) -> None:
        if payload == b"[DONE]" or (payload[:1] != b"{" and payload.strip() == b"[DONE]"):
            self.over = True
            if not self.complete:
                raise early_end(self._name, "ended the answer without a reason")
            return
        chunk = self._decode(payload)
        if chunk is None:
            lines = payload.split(b"\n")
            if len(lines) == 1:
                raise early_end(self._name, "sent something that is no JSON")
            # Events without the blank line between them.
            for line in lines:
                self._payload(line, out)
            return
        self.seen += 1
        if self._first.plain and (words := plain_words(chunk)):
            self._around.learn(payload, words)
            out.append(Content(words))
            return
        if chunk.error or chunk.object == "error":
            if self.complete:
                return
            raise from_payload(self._name, chunk.error or {"message": chunk.message, "code": chunk.code})
        if chunk.system_fingerprint and not self._fingerprint:
            self._fingerprint = chunk.system_fingerprint
        counted = chunk.usage is not None or chunk.timings is not None
        if counted:
            self._count(chunk)
        before = len(out)
        for choice in chunk.choices or ():
            if 0 <= choice.index < len(self._answers):
                answer = self._answers[choice.index]
                self._choice(choice, answer, out)
                self.lively = self.lively or answer.lively
                if answer.finished and not self.complete:
                    self.complete = all(one.finished for one in self._answers)
        if len(out) > before and not self._begun:
            self._begun = True
            if self._fingerprint:
                out.insert(before, Origin(self._fingerprint))
        if self.complete and (counted or self.cut):
            self._tell(out)
        if self._first.plain and (words := plain_words(chunk)):
            # The first ones. What follows need not be like them in any other way.
            self._around.learn(payload, words)

    def _choice(self, choice: Choice, answer: Answer, out: list[Event]) -> None:
        delta = choice.delta or choice.message
        if choice.text is not None:
            delta = Delta(content=choice.text)
        if delta is not None:
            thought = text_of(delta.reasoning) or text_of(delta.reasoning_content)
            content = text_of(delta.content)
            if thought:
                answer.reasoning(thought, out)
            if content:
                answer.content(content, out)
            for place, call in enumerate(delta.tool_calls or ()):
                key = call.index if call.index is not None else place if choice.delta is None else 0
                function = call.function or Function()
                answer.tool(key, call.id or "", function.name or "", arguments_of(function.arguments), out)
            if choice.logprobs is not None and not answer.finished:
                told = told_logprobs(choice.logprobs)
                # Those of thinking that is kept back would tell it after all.
                if told not in ("null", "[]") and (content or not thought or answer.shows_thinking):
                    out.append(Logprobs(told, answer.index))
        if choice.finish_reason:
            if choice.finish_reason in _BROKEN_REASONS and not answer.finished:
                raise early_end(self._name, "aborted the answer")
            self._ended.add(answer.index)
            answer.finish(choice.finish_reason, out)

    def _count(self, chunk: Chunk) -> None:
        usage, timings, metrics = chunk.usage, chunk.timings, chunk.metrics
        usage, timings = usage or _NO_COUNTS, timings or _NO_TIMINGS
        metrics = metrics or _NO_METRICS
        before = self._usage or _NO_USAGE
        cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None
        thought = usage.completion_tokens_details.reasoning_tokens if usage.completion_tokens_details else None
        prompt = usage.prompt_tokens
        if prompt is None and timings.prompt_n is not None:
            prompt = timings.prompt_n + (timings.cache_n or 0)
        completion = usage.completion_tokens if usage.completion_tokens is not None else timings.predicted_n
        self._usage = Usage(
            prompt=before.prompt if prompt is None else plausible(prompt) or 0,
            completion=before.completion if completion is None else plausible(completion) or 0,
            cached=plausible(_first(cached, timings.cache_n, before.cached)),
            reasoning=before.reasoning if thought is None else plausible(thought),
            prompt_ns=_ns(_first(timings.prompt_ms, metrics.time_to_first_token_ms)) or before.prompt_ns,
            completion_ns=_ns(_first(timings.predicted_ms, metrics.generation_time_ms)) or before.completion_ns,
        )


def _first(*told: N | None) -> N | None:
    for one in told:
        if one is not None:
            return one
    return None


def _ns(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else plausible(milliseconds * 1e6)
