"""An answer as a row of blocks, thinking, words and tool calls, one after the other: how agents' APIs tell it.

A stream tells the steps as they come, a whole answer what they add up to, so that both always say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from buffer.job import Chat, Content, Event, Finish, Reasoning, ToolDelta, Usage
from gateway.dialects.answer import Calls, hides
from gateway.dialects.text import json_object

Kind = Literal["thinking", "text", "call"]


class Block:
    """One block. ``number``: its place in the answer, from 0."""

    __slots__ = ("broken", "call_id", "closed", "kind", "name", "number", "pieces")

    def __init__(self, kind: Kind, number: int, call_id: str = "", name: str = "") -> None:
        self.kind = kind
        self.number = number
        self.call_id = call_id
        self.name = name
        self.pieces: list[str] = []
        self.closed = False
        self.broken = False
        """It is a call whose arguments are no JSON object."""

    @property
    def text(self) -> str:
        """Its words, or a call's arguments."""
        return "".join(self.pieces)


class Step(NamedTuple):
    """What happened to a block. ``text``: of ``more``, the words that were added."""

    what: Literal["open", "more", "close"]
    block: Block
    text: str = ""


class Blocks:
    """Makes blocks of an answer's events. How these are grouped changes nothing.

    Calls are told whole, after everything else, since their pieces may come in any order. What a model says between
    calls or after them is no part of the answer, nor are blanks before them that follow no word.
    """

    def __init__(self, chat: Chat, answer_id: str) -> None:
        self.blocks: list[Block] = []
        self.usage: Usage | None = None
        self.pieces = 0
        """Pieces of text that came: about the number of tokens, where nobody counted them."""
        self.reason = ""
        self._hides = hides(chat)
        self._calls = Calls(chat, answer_id, 0)
        self._open: Block | None = None
        self._blanks = ""

    @property
    def finished(self) -> bool:
        return bool(self.reason)

    @property
    def has_calls(self) -> bool:
        return any(block.kind == "call" for block in self.blocks)

    @property
    def has_broken_calls(self) -> bool:
        """The model called a tool with arguments that are no JSON object, and not because it was cut off."""
        return any(block.broken for block in self.blocks)

    def feed(self, events: Sequence[Event]) -> list[Step]:
        steps: list[Step] = []
        for event in events:
            if isinstance(event, Usage):
                self.usage = event
            elif getattr(event, "index", 0) or self.reason:
                continue
            elif isinstance(event, Content):
                self.pieces += 1
                self._say(event.text, steps)
            elif isinstance(event, Reasoning):
                self.pieces += 1
                if event.text and not self._hides and not self._calls:
                    self._more("thinking", event.text, steps)
            elif isinstance(event, ToolDelta):
                self.pieces += 1
                self._calls.add(event)
            elif isinstance(event, Finish):
                self._finish(event.reason, steps)
        return steps

    def end(self) -> list[Step]:
        """The last steps of an answer that is whole, whether it has said so or not."""
        steps: list[Step] = []
        if not self.reason:
            self._finish("stop", steps)
        return steps

    def _say(self, text: str, steps: list[Step]) -> None:
        if self._calls:
            return
        if not (self._open and self._open.kind == "text"):
            text = self._blanks + text
            if not text.strip():
                self._blanks = text
                return
            self._blanks = ""
        if text:
            self._more("text", text, steps)

    def _more(self, kind: Kind, text: str, steps: list[Step]) -> None:
        block = self._open
        if block is None or block.kind != kind:
            self._close(steps)
            block = self._open = self._add(Block(kind, len(self.blocks)), steps)
        block.pieces.append(text)
        steps.append(Step("more", block, text))

    def _add(self, block: Block, steps: list[Step]) -> Block:
        self.blocks.append(block)
        steps.append(Step("open", block))
        return block

    def _close(self, steps: list[Step]) -> None:
        if self._open is not None:
            self._open.closed = True
            steps.append(Step("close", self._open))
            self._open = None

    def _finish(self, reason: str, steps: list[Step]) -> None:
        self.reason = reason
        self._close(steps)
        for call in self._calls:
            arguments = json_object(call.arguments)
            if arguments is None and reason == "length":
                # Cut off in the middle: nobody could run it, and the reason says that the answer is not whole.
                continue
            block = self._open = self._add(Block("call", len(self.blocks), call.id, call.name), steps)
            block.broken = arguments is None
            block.pieces.append(call.arguments if arguments is None else arguments.decode())
            steps.append(Step("more", block, block.text))
            self._close(steps)
        if not self.blocks:
            # Clients look for the first block of an answer without looking whether there is one.
            self._open = self._add(Block("text", 0), steps)
            if self._blanks:
                self._more("text", self._blanks, steps)
            self._close(steps)
