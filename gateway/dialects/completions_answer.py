"""OpenAI's answers to completions, streamed and in one object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from buffer.job import Chat, Content, End, Event, Finish, Logprobs, Origin, Usage
from gateway.dialects.errors import failure_of
from gateway.dialects.openai_answer import error, usage
from gateway.dialects.openai_stream import DONE
from gateway.dialects.text import dump, quote


class _Top(Struct):
    token: str = ""
    logprob: float | None = None


class _Entry(Struct):
    token: str = ""
    logprob: float | None = None
    top_logprobs: list[_Top] | None = None


_decode = msgspec.json.Decoder(list[_Entry]).decode


class _Tokens(NamedTuple):
    """Probabilities in the form that completions have: a list for each of them."""

    texts: list[str]
    logprobs: list[float | None]
    tops: list[dict[str, float | None] | None]
    offsets: list[int]

    def add(self, more: _Tokens) -> None:
        self.texts.extend(more.texts)
        self.logprobs.extend(more.logprobs)
        self.tops.extend(more.tops)
        self.offsets.extend(more.offsets)

    def json(self) -> bytes:
        # A token can be half a character, and then it is no text that UTF-8 could hold.
        tokens = b",".join(quote(text) for text in self.texts)
        tops = b",".join(
            b"null" if top is None else b"{" + b",".join(quote(t) + b":" + dump(p) for t, p in top.items()) + b"}"
            for top in self.tops
        )
        return b'{"tokens":[%b],"token_logprobs":%b,"top_logprobs":[%b],"text_offset":%b}' % (
            tokens,
            dump(self.logprobs),
            tops,
            dump(self.offsets),
        )


class _Choice:
    """One of the answers, as far as it has come."""

    __slots__ = ("chars", "offset", "reason", "texts", "tokens")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.tokens: list[_Tokens] = []
        self.reason = ""
        self.chars = 0
        """Characters of text so far,"""
        self.offset = 0
        """and those whose tokens have been told."""

    def read(self, told: Logprobs) -> _Tokens | None:
        """The older form of what chats are told of tokens; None where that is nothing."""
        try:
            entries = _decode(told.json.encode("utf-8", "replace"))
        except msgspec.DecodeError:
            return None
        found = _Tokens([], [], [], [])
        length = sum(len(entry.token) for entry in entries)
        # Text without tokens came before these: an echoed prompt.
        self.offset = max(self.offset, self.chars - length)
        for entry in entries:
            found.texts.append(entry.token)
            found.logprobs.append(entry.logprob)
            found.tops.append({top.token: top.logprob for top in entry.top_logprobs or ()} or None)
            found.offsets.append(self.offset)
            self.offset += len(entry.token)
        return found if found.texts else None


class _Answers:
    """All choices, with what the engines counted and say of themselves."""

    def __init__(self, chat: Chat, id: str, created: float) -> None:
        self.choices = [_Choice() for _ in range(max(chat.n, 1))]
        self.usage: Usage | None = None
        self.pieces = 0
        self._start = b'{"id":%b,"object":"text_completion","created":%d,"model":%b' % (
            quote(id),
            int(created),
            quote(chat.model),
        )
        self.head = self._start

    @property
    def finished(self) -> bool:
        return all(choice.reason for choice in self.choices)

    def open_choice(self, event: Event) -> tuple[int, _Choice] | None:
        """The choice that ``event`` belongs to, unless it has ended or the event is of the whole answer."""
        if isinstance(event, Usage):
            self.usage = event
        elif isinstance(event, Origin):
            source = b',"system_fingerprint":' + quote(event.fingerprint) if event.fingerprint else b""
            self.head = self._start + source
        elif isinstance(event, Content | Logprobs | Finish) and 0 <= event.index < len(self.choices):
            choice = self.choices[event.index]
            if isinstance(event, Content):
                self.pieces += 1
                choice.chars += len(event.text)
            return None if choice.reason else (event.index, choice)
        return None

    def counts(self) -> bytes:
        return dump(usage(self.usage, self.pieces))


def _finish_reason(reason: str) -> str:
    return "stop" if reason in ("tool_calls", "") else reason


class Stream:
    """A streamed answer: a chunk for each piece of text, why each choice stopped and, if asked, the usage.

    How its events are grouped changes nothing. Instants are in seconds since 1970.
    """

    def __init__(self, chat: Chat, *, id: str, created: float) -> None:
        self._answers = _Answers(chat, id, created)
        self._logprobs = chat.logprobs
        self._include_usage = chat.include_usage

    @property
    def finished(self) -> bool:
        """Each of the choices has said why it stopped, so that nothing of them can be missing."""
        return self._answers.finished

    def heartbeat(self, now: float) -> bytes:
        """Keeps a waiting connection open; every client's parser skips it."""
        return b": keep-alive\n\n"

    def feed(self, events: Sequence[Event], now: float) -> bytes:
        out: list[bytes] = []
        for event in events:
            found = self._answers.open_choice(event)
            if found is None:
                continue
            index, choice = found
            if isinstance(event, Content):
                if event.text:
                    out.append(self._chunk(index, text=quote(event.text)))
            elif isinstance(event, Logprobs):
                if self._logprobs and (tokens := choice.read(event)) is not None:
                    out.append(self._chunk(index, logprobs=tokens.json()))
            elif isinstance(event, Finish):
                choice.reason = event.reason
                out.append(self._chunk(index, reason=quote(_finish_reason(event.reason))))
        return b"".join(out)

    def end(self, end: End, now: float, *, queued_s: float = 0.0) -> bytes:
        """The last bytes. A failure after the whole answer is none."""
        failure = failure_of(end)
        if failure is not None and not self.finished:
            return b"data: " + error(failure) + b"\n\n" + DONE
        out = [
            self._chunk(index, reason=b'"stop"')
            for index, choice in enumerate(self._answers.choices)
            if not choice.reason
        ]
        if self._include_usage:
            out.append(b'data: %b,"choices":[],"usage":%b}\n\n' % (self._answers.head, self._answers.counts()))
        return b"".join([*out, DONE])

    def _chunk(self, index: int, *, text: bytes = b'""', logprobs: bytes = b"null", reason: bytes = b"null") -> bytes:
        return b'data: %b,"choices":[{"text":%b,"index":%d,"logprobs":%b,"finish_reason":%b}]}\n\n' % (
            self._answers.head,
            text,
            index,
            logprobs,
            reason,
        )


class Whole:
    """An answer in one object."""

    def __init__(self, chat: Chat, *, id: str, created: float) -> None:
        self._answers = _Answers(chat, id, created)
        self._logprobs = chat.logprobs

    @property
    def finished(self) -> bool:
        return self._answers.finished

    def feed(self, events: Sequence[Event], now: float) -> bytes:
        for event in events:
            found = self._answers.open_choice(event)
            if found is None:
                continue
            _, choice = found
            if isinstance(event, Content):
                choice.texts.append(event.text)
            elif isinstance(event, Logprobs):
                if self._logprobs and (tokens := choice.read(event)) is not None:
                    choice.tokens.append(tokens)
            elif isinstance(event, Finish):
                choice.reason = event.reason
        return b""

    def end(self, end: End, now: float, *, queued_s: float = 0.0) -> tuple[int, bytes]:
        """HTTP status and body."""
        failure = failure_of(end)
        if failure is not None and not self.finished:
            return failure.status, error(failure)
        answers = self._answers
        choices = b",".join(self._choice(index, choice) for index, choice in enumerate(answers.choices))
        return 200, b'%b,"choices":[%b],"usage":%b}' % (answers.head, choices, answers.counts())

    def _choice(self, index: int, choice: _Choice) -> bytes:
        tokens = b"null"
        if self._logprobs and choice.tokens:
            joined = _Tokens([], [], [], [])
            for told in choice.tokens:
                joined.add(told)
            tokens = joined.json()
        return b'{"text":%b,"index":%d,"logprobs":%b,"finish_reason":%b}' % (
            quote("".join(choice.texts)),
            index,
            tokens,
            quote(_finish_reason(choice.reason)),
        )
