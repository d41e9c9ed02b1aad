"""The dialects behind one face, so that everything between parsing and sending is written once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from buffer.job import Chat, End, Event, Failure
from buffer.telemetry import Api
from gateway.call import JSON, NDJSON, SSE, Call, Headers
from gateway.dialects import anthropic, completions, completions_answer, generate, ollama, openai, responses
from gateway.dialects.errors import headers

_log = logging.getLogger("doublebuffer.gateway")


class StreamWriter(Protocol):
    """An answer in pieces. ``now`` is in seconds since 1970."""

    @property
    def finished(self) -> bool:
        """The answer is whole, whatever comes after."""

    def feed(self, events: Sequence[Event], now: float) -> bytes: ...
    def heartbeat(self, now: float) -> bytes: ...
    def end(self, end: End, now: float, *, queued_s: float) -> bytes: ...


class WholeWriter(Protocol):
    """An answer in one object. ``now`` is in seconds since 1970."""

    def feed(self, events: Sequence[Event], now: float) -> bytes: ...
    def end(self, end: End, now: float, *, queued_s: float) -> tuple[int, bytes]:
        """Status and body."""


class Parse(Protocol):
    def __call__(self, body: bytes, *, allow_image_urls: bool) -> Chat | list[Chat]:
        """A list where a request may ask several things at once; they differ in nothing but their prompts. Raises
        ``BadRequest``."""


@dataclass(frozen=True, slots=True)
class Form:
    """One dialect of chats."""

    api: Api
    stream_type: bytes
    parse: Parse
    stream: Callable[[Chat, str, float, bool], StreamWriter]
    """Of a chat, its job's id, the instant, and whether a failure has to be said in the text too. Of several chats, the
    first one with the ``n`` of all."""
    whole: Callable[[Chat, str, float], WholeWriter]
    error: Callable[[Failure], bytes]
    unknown_model: Callable[[str], Failure]
    cannot_think: Callable[[str], Failure] | None
    """How a model refuses to think; None: it is asked to in vain."""
    load_answer: Callable[[Chat, float], bytes | None] | None
    """The answer to a chat that asks for none; None for all others. None: every chat asks for one."""
    failed_line: bytes | None
    """How the last line of a failed stream begins, where the connection is broken off after it; None: it never is."""

    def breaks_off(self, last_words: bytes) -> bool:
        """Whether a stream with these last words is no whole answer, and has to end so that its client notices."""
        if self.failed_line is None:
            return False
        return last_words[last_words.rfind(b"\n", 0, -1) + 1 :].startswith(self.failed_line)


OPENAI = Form(
    api="openai",
    stream_type=SSE,
    parse=openai.parse_chat,
    stream=lambda chat, id, now, _: openai.Stream(chat, id=f"chatcmpl-{id}", created=now),
    whole=lambda chat, id, now: openai.Whole(chat, id=f"chatcmpl-{id}", created=now),
    error=openai.error,
    unknown_model=openai.unknown_model,
    cannot_think=None,
    load_answer=None,
    failed_line=None,
)
OLLAMA = Form(
    api="ollama",
    stream_type=NDJSON,
    parse=ollama.parse_chat,
    stream=lambda chat, id, now, spoken: ollama.Stream(chat, id=id, created=now, failure_as_text=spoken),
    whole=lambda chat, id, now: ollama.Whole(chat, id=id, created=now),
    error=ollama.error,
    unknown_model=ollama.unknown_model,
    cannot_think=ollama.cannot_think,
    load_answer=ollama.load_answer,
    failed_line=b'{"error":',
)
COMPLETIONS = replace(
    OPENAI,
    parse=completions.parse,
    stream=lambda chat, id, now, _: completions_answer.Stream(chat, id=f"cmpl-{id}", created=now),
    whole=lambda chat, id, now: completions_answer.Whole(chat, id=f"cmpl-{id}", created=now),
)


def _parse_generate(body: bytes, *, allow_image_urls: bool) -> Chat:
    chat = generate.parse(body, allow_image_urls=allow_image_urls)
    if chat.extra.pop("template", None) is not None:
        _log.info("a request brought a template of its own; the model's is used")
    return chat


GENERATE = replace(
    OLLAMA,
    parse=_parse_generate,
    stream=lambda chat, id, now, spoken: generate.stream(chat, id=id, created=now, failure_as_text=spoken),
    whole=lambda chat, id, now: generate.whole(chat, id=id, created=now),
    load_answer=generate.load_answer,
)


RESPONSES = Form(
    api="responses",
    stream_type=SSE,
    parse=responses.parse_chat,
    stream=lambda chat, id, now, _: responses.Stream(chat, id=id, created=now),
    whole=lambda chat, id, now: responses.Whole(chat, id=id, created=now),
    error=responses.error,
    unknown_model=responses.unknown_model,
    cannot_think=None,
    load_answer=None,
    failed_line=None,
)


def anthropic_form(request_id: str, input_tokens: int = 0) -> Form:
    """Anthropic's errors name the request that they belong to. ``input_tokens``: about how many its prompt has; 0: to
    be counted.
    """
    stream = partial(anthropic.Stream, request_id=request_id, input_tokens=input_tokens)
    whole = partial(anthropic.Whole, request_id=request_id, input_tokens=input_tokens)
    return Form(
        api="anthropic",
        stream_type=SSE,
        parse=anthropic.parse_chat,
        stream=lambda chat, id, now, _: stream(chat, id=id, created=now),
        whole=lambda chat, id, now: whole(chat, id=id, created=now),
        error=lambda failure: anthropic.error(failure, request_id),
        unknown_model=anthropic.unknown_model,
        cannot_think=None,
        load_answer=None,
        failed_line=None,
    )


def failure_answer(failure: Failure, call: Call) -> tuple[int, bytes, bytes, Headers]:
    """Status, content type, body and headers of a refusal, in the form of the API that was asked."""
    other = OPENAI if call.is_openai else OLLAMA
    form = anthropic_form(call.request_id) if call.is_anthropic else other
    return failure.status, JSON, form.error(failure), headers(failure)
