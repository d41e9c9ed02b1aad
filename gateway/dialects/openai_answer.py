"""OpenAI's answers in one object, and what its streams share with them."""

from __future__ import annotations

from collections.abc import Sequence

from buffer.job import Chat, End, Event, Failure, Usage
from gateway.dialects.answer import Call, Calls
from gateway.dialects.errors import failure_of, sentence
from gateway.dialects.gathered import Gathered, OneAnswer, joined
from gateway.dialects.text import dump, quote

_TYPES = {401: "invalid_request_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def error(failure: Failure) -> bytes:
    """The body of an answer that failed. ``code`` is text or null, as OpenAI's is, never a number."""
    kind = _TYPES.get(failure.status, "server_error" if failure.status >= 500 else "invalid_request_error")
    code = failure.code
    if failure.status < 500 and code == "upstream_error":
        code = ""
    shown = {"message": sentence(failure.message), "type": kind, "param": failure.param or None, "code": code or None}
    return b'{"error":' + b"".join((b"{", _members(shown), b"}")) + b"}"


def _members(shown: dict[str, str | None]) -> bytes:
    return b",".join(quote(name) + b":" + (b"null" if value is None else quote(value)) for name, value in shown.items())


def finish_reason(reason: str, calls: Calls) -> str:
    """Tool calls end an answer with ``tool_calls``, whatever the engine called it, unless it was cut off."""
    if reason in {"stop", "tool_calls"}:
        return "tool_calls" if calls else "stop"
    return reason


def usage(told: Usage | None, pieces: int) -> dict[str, object]:
    """``pieces`` stands for the answer's tokens where the engine did not count them."""
    if told is None:
        told = Usage(0, pieces)
    counts: dict[str, object] = {
        "prompt_tokens": told.prompt,
        "completion_tokens": told.completion,
        "total_tokens": told.prompt + told.completion,
    }
    if told.cached is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": told.cached}
    if told.reasoning is not None:
        counts["completion_tokens_details"] = {"reasoning_tokens": told.reasoning}
    return counts


class Whole:
    """An answer in one object."""

    def __init__(self, chat: Chat, *, id: str, created: float) -> None:
        self._id = id
        self._created = int(created)
        self._model = chat.model
        self._logprobs = chat.logprobs
        self._gathered = Gathered(chat, id)

    @property
    def finished(self) -> bool:
        return self._gathered.finished

    def feed(self, events: Sequence[Event], now: float) -> bytes:
        self._gathered.feed(events)
        return b""

    def end(self, end: End, now: float, *, queued_s: float = 0.0) -> tuple[int, bytes]:
        """HTTP status and body."""
        failure = failure_of(end)
        gathered = self._gathered
        if failure is not None and not gathered.finished:
            return failure.status, error(failure)
        source = b',"system_fingerprint":' + quote(gathered.fingerprint) if gathered.fingerprint else b""
        choices = b",".join(self._choice(index, one) for index, one in enumerate(gathered.answers))
        body = b'{"id":%b,"object":"chat.completion","created":%d,"model":%b%b,"choices":[%b],"usage":%b}' % (
            quote(self._id),
            self._created,
            quote(self._model),
            source,
            choices,
            dump(usage(gathered.usage, gathered.pieces)),
        )
        return 200, body

    def _choice(self, index: int, one: OneAnswer) -> bytes:
        text = "".join(one.content)
        message = [
            b'{"role":"assistant","content":',
            b"null" if one.calls and not text else quote(text),
            b',"refusal":null',
        ]
        if one.reasoning:
            thoughts = quote("".join(one.reasoning))
            message += (b',"reasoning":', thoughts, b',"reasoning_content":', thoughts)
        if one.calls:
            message.append(b',"tool_calls":[' + b",".join(_whole_call(call) for call in one.calls) + b"]")
        logprobs = b'{"content":%b,"refusal":null}' % joined(one.logprobs) if self._logprobs else b"null"
        reason = quote(finish_reason(one.reason or "stop", one.calls))
        return b'{"index":%d,"message":%b},"logprobs":%b,"finish_reason":%b}' % (
            index,
            b"".join(message),
            logprobs,
            reason,
        )


def _whole_call(call: Call) -> bytes:
    return b'{"id":%b,"type":"function","function":{"name":%b,"arguments":%b}}' % (
        quote(call.id),
        quote(call.name),
        quote(call.arguments or "{}"),
    )
