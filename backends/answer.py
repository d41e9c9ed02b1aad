"""Pure: puts one answer's events together from an engine's fragments, in the same way for every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from backends.reasoning import Splitter
from backends.stops import StopScanner
from backends.thinking import Mode
from buffer.job import Content, Event, Finish, Reasoning, ToolDelta

HELD_LIMIT = 1024 * 1024
"""Characters of unwanted thinking kept in case they turn out to be the answer."""

Reason = Literal["stop", "length", "tool_calls", "content_filter"]
_REASONS: dict[str, Reason] = {
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


class _Call:
    """A tool call under way. It is sent as soon as its name is known."""

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.id = ""
        self.name = ""
        self.waiting = ""
        self.sent = False


class Answer:
    """One of a job's ``n`` answers. Each method adds to the list of events that it is given."""

    def __init__(
        self,
        index: int,
        *,
        mode: Mode,
        splitter: Splitter | None,
        new_id: Callable[[], str],
        stops: Sequence[str] = (),
        one_call: bool = False,
        mute: bool = False,
        after: str = "",
    ) -> None:
        """``stops``: those that the engine was not told. ``one_call``: only the first tool call counts. ``mute``: the
        client wants no word. ``after``: the answer's words before these, where it is gone on with."""
        self.index = index
        self.finished = False
        self.lively = False
        """The model has said or thought something, sent on or not."""
        self.parsed = False
        """The engine tells thinking from answer by itself."""
        self.shows_thinking = mode == "show"
        self._mode = mode
        self._splitter = splitter
        self._new_id = new_id
        self._scanner = StopScanner(stops, after=after) if stops else None
        self._one_call = one_call
        self._mute = mute
        self._said = False
        self.plain = False
        """What is said from here on goes out as it is."""
        self._thought = False
        self._held: list[str] = []
        self._held_size = 0
        self._calls: list[_Call] = []
        self._slots: dict[int, _Call] = {}

    def reasoning(self, text: str, out: list[Event]) -> None:
        """Thinking that the engine marked as such."""
        if not text or self.finished:
            return
        self.parsed = True
        if self._splitter is not None:
            rest, self._splitter = self._splitter.flush(), None
            for part in rest:
                if part.text.strip():
                    self._say(part.text, out)
        self._think(text, out)

    def content(self, text: str, out: list[Event]) -> None:
        """Text that the engine calls the answer."""
        if not text or self.finished:
            return
        if self.plain:
            out.append(Content(text, self.index))
            return
        if self._splitter is None:
            if self._thought and not self._said:
                # The line breaks that stood between the close tag and the answer.
                text = text.lstrip("\r\n")
            self._say(text, out)
        else:
            for part in self._splitter.feed(text):
                if part.thinking:
                    self._think(part.text, out)
                else:
                    self._say(part.text, out)
            if self._splitter.done:
                self._splitter = None
        self.plain = self._said and self._splitter is None and self._scanner is None and not self._mute

    def tool(self, key: int, call_id: str, name: str, arguments: str, out: list[Event]) -> None:
        """A fragment of the tool call that the engine numbers ``key``."""
        if self.finished:
            return
        call = self._slots.get(key)
        if call is None or (call_id and call.id and call_id != call.id):
            # Some engines number all parallel calls 0; a new id is a new call.
            call = _Call(len(self._calls))
            self._calls.append(call)
            self._slots[key] = call
        self.lively = True
        call.id = call.id or call_id
        call.name = call.name or name
        if call.sent:
            if arguments:
                self._send(ToolDelta(call.slot, arguments=arguments, index=self.index), out)
            return
        call.waiting += arguments
        if call.name:
            self._open(call, out)

    def finish(self, reason: str, out: list[Event]) -> None:
        """The engine's own end. Afterwards nothing more is sent."""
        if self.finished:
            return
        if self._splitter is not None:
            for part in self._splitter.flush():
                if part.thinking:
                    self._think(part.text, out)
                else:
                    self._say(part.text, out)
        if self._scanner is not None and not self.finished and (rest := self._scanner.flush()):
            self._send(Content(rest, self.index), out)
        if self.finished:
            return
        for call in self._calls:
            if not call.sent and call.waiting:
                self._open(call, out)
        end = _REASONS.get(reason, "stop")
        if end == "stop" and self._mode == "hold" and not self._said and not self._calls and self._held:
            self._send(Content("".join(self._held), self.index), out)
        if end == "stop" and self._calls and any(call.sent for call in self._calls):
            end = "tool_calls"
        self._end(end, out)

    def _think(self, text: str, out: list[Event]) -> None:
        self.lively = True
        if self._mode == "answer":
            self._say(text, out)
            return
        if not self._thought:
            text = text.lstrip("\r\n")
        if not text:
            return
        self._thought = True
        if self._mode == "show":
            self._send(Reasoning(text, self.index), out)
        elif self._mode == "hold" and self._held_size <= HELD_LIMIT:
            self._held.append(text)
            self._held_size += len(text)
            if self._held_size > HELD_LIMIT:
                self._held.clear()

    def _say(self, text: str, out: list[Event]) -> None:
        self.lively = True
        if not text:
            return
        self._said = self._said or not text.isspace()
        if self._scanner is None:
            self._send(Content(text, self.index), out)
            return
        text, stopped = self._scanner.feed(text)
        if text:
            self._send(Content(text, self.index), out)
        if stopped:
            self._end("stop", out)

    def _open(self, call: _Call, out: list[Event]) -> None:
        call.sent = True
        if self._one_call and call.slot > 0:
            return
        call.id = call.id or self._new_id()
        self._send(ToolDelta(call.slot, call.id, call.name, call.waiting, self.index), out)

    def _send(self, event: Event, out: list[Event]) -> None:
        if self._mute or (self._one_call and isinstance(event, ToolDelta) and event.slot > 0):
            return
        out.append(event)

    def _end(self, reason: Reason, out: list[Event]) -> None:
        self.finished = True
        self.plain = False
        out.append(Finish("length" if self._mute else reason, self.index))
