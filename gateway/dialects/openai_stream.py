"""OpenAI's streams: server-sent events, one chunk for each event of the answer."""

from __future__ import annotations

from collections.abc import Sequence

from buffer.job import Chat, Content, End, Event, Finish, Logprobs, Origin, Reasoning, ToolDelta, Usage
from gateway.dialects.answer import Call, Calls, hides
from gateway.dialects.errors import failure_of
from gateway.dialects.openai_answer import error, finish_reason, usage
from gateway.dialects.text import dump, one_line, quote

DONE = b"data: [DONE]\n\n"
_TAIL = b'},"logprobs":null,"finish_reason":null}]}\n\n'


class _Choice:
    """One of ``n`` answers in a stream."""

    __slots__ = ("calls", "content", "finished", "head", "hidden", "reasoning", "tools")

    def __init__(self, head: bytes, calls: Calls, *, hidden: bool) -> None:
        self.head = head
        self.content = head + b'{"content":'
        self.reasoning = head + b'{"reasoning":'
        self.tools = head + b'{"tool_calls":[{"index":'
        self.calls = calls
        self.finished = False
        self.hidden = hidden
        """The latest text was thinking that the client must not see: nor may it see its tokens."""


class Stream:
    """A streamed answer: the role, a chunk for each event, why it stopped and, if asked, the usage.

    How its events are grouped changes nothing. Instants are in seconds since 1970.
    """

    def __init__(self, chat: Chat, *, id: str, created: float) -> None:
        self._id = id
        self._created = int(created)
        self._chat_model = chat.model
        self._n = chat.n
        self._hides = hides(chat)
        self._logprobs = chat.logprobs
        self._include_usage = chat.include_usage
        self._shape = Chat(chat.model, [], parallel_tool_calls=chat.parallel_tool_calls)
        self._choices: dict[int, _Choice] = {}
        self._usage: Usage | None = None
        self._pieces = 0
        self._head = b""
        self._name_source("")

    def _name_source(self, fingerprint: str) -> None:
        source = b',"system_fingerprint":' + quote(fingerprint) if fingerprint else b""
        self._head = b'data: {"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b%b,"choices":[' % (
            quote(self._id),
            self._created,
            quote(self._chat_model),
            source,
        )

    @property
    def finished(self) -> bool:
        """Each of the answers has said why it stopped, so that nothing of them can be missing."""
        return len(self._choices) == self._n and all(choice.finished for choice in self._choices.values())

    def heartbeat(self, now: float) -> bytes:
        """Keeps a waiting connection open; every client's parser skips it."""
        return b": keep-alive\n\n"

    def feed(self, events: Sequence[Event], now: float) -> bytes:
        out: list[bytes] = []
        for event in events:
            if type(event) is Content and (choice := self._choices.get(event.index)) and not choice.finished:
                self._pieces += 1
                choice.hidden = False
                if event.text:
                    out += (choice.content, quote(event.text), _TAIL)
                continue
            if isinstance(event, Usage):
                self._usage = event
                continue
            if isinstance(event, Origin):
                self._name_source(event.fingerprint)
                continue
            choice = self._choices.get(event.index) or self._open(event.index, out)
            if choice is None or choice.finished:
                continue
            if isinstance(event, Content):
                self._pieces += 1
                choice.hidden = False
                if event.text:
                    out += (choice.content, quote(event.text), _TAIL)
            elif isinstance(event, Reasoning):
                self._pieces += 1
                choice.hidden = self._hides
                if event.text and not self._hides:
                    text = quote(event.text)
                    out += (choice.reasoning, text, b',"reasoning_content":', text, _TAIL)
            elif isinstance(event, ToolDelta):
                choice.hidden = False
                self._tool(choice, event, out)
            elif isinstance(event, Logprobs):
                if self._logprobs and not choice.hidden:
                    out += (choice.content, b'""},"logprobs":{"content":', one_line(event.json))
                    out.append(b',"refusal":null},"finish_reason":null}]}\n\n')
            elif isinstance(event, Finish):
                self._finish(choice, event.reason, out)
        return b"".join(out)

    def end(self, end: End, now: float, *, queued_s: float = 0.0) -> bytes:
        """The last bytes. A failure after the whole answer is none."""
        failure = failure_of(end)
        if failure is not None and not self.finished:
            return b"data: " + error(failure) + b"\n\n" + DONE
        out: list[bytes] = []
        for index in range(self._n):
            choice = self._choices.get(index) or self._open(index, out)
            if choice is not None and not choice.finished:
                self._finish(choice, "stop", out)
        if self._include_usage:
            out += (self._head, b'],"usage":', dump(usage(self._usage, self._pieces)), b"}\n\n")
        out.append(DONE)
        return b"".join(out)

    def _open(self, index: int, out: list[bytes]) -> _Choice | None:
        if not 0 <= index < self._n:
            return None
        head = self._head + b'{"index":%d,"delta":' % index
        choice = self._choices[index] = _Choice(head, Calls(self._shape, self._id, index), hidden=self._hides)
        out += (head, b'{"role":"assistant","content":""', _TAIL)
        return choice

    def _tool(self, choice: _Choice, delta: ToolDelta, out: list[bytes]) -> None:
        added = choice.calls.add(delta)
        if added is None:
            return
        call, first = added
        if first:
            out += (choice.tools, _first_piece(call, delta.arguments), b"}]", _TAIL)
        elif delta.arguments:
            out += (choice.tools, _next_piece(call, delta.arguments), b"}]", _TAIL)

    def _finish(self, choice: _Choice, reason: str, out: list[bytes]) -> None:
        for call in choice.calls:
            if not call.pieces:
                # A call without arguments is a call with an empty object of them, which is what clients parse.
                out += (choice.tools, _next_piece(call, "{}"), b"}]", _TAIL)
        choice.finished = True
        out += (
            choice.head,
            b'{},"logprobs":null,"finish_reason":',
            quote(finish_reason(reason, choice.calls)),
            b"}]}\n\n",
        )


def _first_piece(call: Call, arguments: str) -> bytes:
    return b'%d,"id":%b,"type":"function","function":{"name":%b,"arguments":%b}' % (
        call.number,
        quote(call.id),
        quote(call.name),
        quote(arguments),
    )


def _next_piece(call: Call, arguments: str) -> bytes:
    return b'%d,"function":{"arguments":%b}' % (call.number, quote(arguments))
