"""Ollama's answers: a JSON object on each line, or one object."""

from __future__ import annotations

from collections.abc import Sequence

from buffer.job import Chat, Content, End, Event, Failure, Finish, Logprobs, Origin, Reasoning, ToolDelta, Usage
from gateway.dialects.answer import Calls, hides
from gateway.dialects.errors import failure_of, sentence
from gateway.dialects.gathered import Gathered, joined
from gateway.dialects.ollama_line import CHAT, Clock, Line, Shape
from gateway.dialects.sampling import keep_alive_s
from gateway.dialects.text import json_object, one_line, quote

_BUSY = "server busy, please try again.  maximum pending requests exceeded"
"""Ollama's own words, two blanks included: clients look for them."""
_WORDS = {"queue_full": _BUSY, "invalid_api_key": "unauthorized"}
_BAD_CALL = Failure("The model called a tool with arguments that are not a JSON object.", 502, "upstream_error")


def error(failure: Failure) -> bytes:
    """The body of an answer that failed: one sentence, as a plain string."""
    return b'{"error":' + quote(_WORDS.get(failure.code) or sentence(failure.message)) + b"}"


class Stream:
    """A streamed answer: thinking and content as they come, then whole tool calls, then a line with the figures.

    How its events are grouped changes nothing but the instants in it, which are in seconds since 1970.
    """

    def __init__(
        self, chat: Chat, *, id: str, created: float, failure_as_text: bool = False, shape: Shape = CHAT
    ) -> None:
        """``failure_as_text``: say a failure in a last piece of content too, for a client that skips error lines."""
        self._line = Line(chat.model, shape)
        self._shape = shape
        self._more = shape.close + b',"done":false}\n'
        self._hides = hides(chat)
        self._mute = is_mute(chat)
        self._logprobs = chat.logprobs
        self._failure_as_text = failure_as_text
        self._calls = Calls(chat, id, 0)
        self._clock = Clock(created)
        self._usage: Usage | None = None
        self._reason = ""
        self._pieces = 0
        self._hidden = self._hides

    @property
    def finished(self) -> bool:
        """The answer has said why it stopped, so that nothing of it can be missing."""
        return bool(self._reason)

    def heartbeat(self, now: float) -> bytes:
        """Keeps a waiting connection open: a piece of no text, since an empty line breaks clients."""
        return self._line(now) + b'""' + self._more

    def feed(self, events: Sequence[Event], now: float) -> bytes:
        out: list[bytes] = []
        head = self._line(now)
        for event in events:
            if isinstance(event, Usage):
                self._usage = event
            elif isinstance(event, Origin) or event.index or self._reason:
                continue
            elif isinstance(event, Content):
                self._count(now, hidden=False)
                if event.text and not self._mute:
                    out += (head, quote(event.text), self._more)
            elif isinstance(event, Reasoning):
                self._count(now, hidden=self._hides)
                if event.text and not self._hides and not self._mute:
                    out += (head, b'"","thinking":', quote(event.text), self._more)
            elif isinstance(event, ToolDelta):
                self._count(now, hidden=False)
                self._calls.add(event)
            elif isinstance(event, Logprobs):
                if self._logprobs and not self._hidden and not self._mute:
                    out += (head, b'""', self._shape.close, b',"done":false,"logprobs":', one_line(event.json), b"}\n")
            elif isinstance(event, Finish):
                self._reason = event.reason
        return b"".join(out)

    def _count(self, now: float, *, hidden: bool) -> None:
        self._pieces += 1
        self._hidden = hidden
        self._clock.tick(now)

    def end(self, end: End, now: float, *, queued_s: float = 0.0) -> bytes:
        """The last bytes. ``queued_s``: from arrival to dispatch. A failure after the whole answer is none."""
        failure = None if self.finished else failure_of(end)
        calls = b"" if self._mute else whole_calls(self._calls, self._reason)
        if failure is None and calls is None:
            failure = _BAD_CALL
        line = self._line(now)
        if failure is not None:
            text = b""
            if self._failure_as_text:
                text = line + quote(f"\n\n[Doublebuffer: {sentence(failure.message)}]") + self._more
            return text + error(failure) + b"\n"
        out = [line, b'"","tool_calls":', calls or b"", self._more] if calls else []
        figures = self._clock.figures(now, queued_s, self._usage, self._pieces)
        out += (
            line,
            b'""',
            self._shape.close,
            b',"done":true,"done_reason":',
            done_reason(self._reason, mute=self._mute),
            b",",
            figures,
            self._shape.tail,
            b"}\n",
        )
        return b"".join(out)


class Whole:
    """An answer in one object."""

    def __init__(self, chat: Chat, *, id: str, created: float, shape: Shape = CHAT) -> None:
        self._line = Line(chat.model, shape)
        self._shape = shape
        self._mute = is_mute(chat)
        self._logprobs = chat.logprobs
        self._clock = Clock(created)
        self._gathered = Gathered(chat, id)

    @property
    def finished(self) -> bool:
        return self._gathered.finished

    def feed(self, events: Sequence[Event], now: float) -> bytes:
        before = self._gathered.pieces
        self._gathered.feed(events)
        if self._gathered.pieces != before:
            self._clock.tick(now)
        return b""

    def end(self, end: End, now: float, *, queued_s: float = 0.0) -> tuple[int, bytes]:
        """HTTP status and body. ``queued_s``: from arrival to dispatch."""
        one = self._gathered.answers[0]
        failure = None if self.finished else failure_of(end)
        calls = b"" if self._mute else whole_calls(one.calls, one.reason)
        if failure is None and calls is None:
            failure = _BAD_CALL
        if failure is not None:
            return failure.status, error(failure)
        out = [self._line(now), b'""' if self._mute else quote("".join(one.content))]
        if one.reasoning and not self._mute:
            out += (b',"thinking":', quote("".join(one.reasoning)))
        if calls:
            out += (b',"tool_calls":', calls)
        out += (self._shape.close, b',"done":true,"done_reason":', done_reason(one.reason, mute=self._mute), b",")
        out += (self._clock.figures(now, queued_s, self._gathered.usage, self._gathered.pieces), self._shape.tail)
        if self._logprobs and not self._mute:
            out += (b',"logprobs":', joined(one.logprobs))
        return 200, b"".join(out) + b"}"


def is_mute(chat: Chat) -> bool:
    """The client asked for an answer of no tokens at all. An engine that cannot do so may send one all the same."""
    return chat.max_tokens == 0


def done_reason(reason: str, *, mute: bool) -> bytes:
    return b'"length"' if reason == "length" or mute else b'"stop"'


def whole_calls(calls: Calls, reason: str) -> bytes | None:
    """The calls as a JSON list, arguments as objects; empty if there are none. None: some arguments are no object.

    A call that the length limit cut off is left out: ``done_reason`` says that the answer is not whole.
    """
    found = []
    for call in calls:
        arguments = json_object(call.arguments)
        if arguments is None:
            if reason == "length":
                continue
            return None
        found.append(
            b'{"id":%b,"function":{"index":%d,"name":%b,"arguments":%b}}'
            % (quote(call.id), call.number, quote(call.name), arguments)
        )
    return b"[" + b",".join(found) + b"]" if found else b""


def load_answer(chat: Chat, now: float, *, shape: Shape = CHAT) -> bytes | None:
    """The answer to a request with no messages and no prompt: it loads the model, or unloads it if it is kept no time.

    One object, stream or not. None: there is something to answer.
    """
    if chat.messages or chat.prompt is not None:
        return None
    reason = b'"unload"' if keep_alive_s(chat.keep_alive) == 0 else b'"load"'
    return b'%b""%b,"done":true,"done_reason":%b}' % (Line(chat.model, shape)(now), shape.close, reason)
