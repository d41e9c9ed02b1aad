"""A job in this worker's hands, from pull to settle."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from buffer.heard import Heard, Said
from buffer.job import Chat, Usage
from buffer.pace import Pace
from buffer.records import Granted
from worker.engine import Engine

if TYPE_CHECKING:
    from buffer.span_kinds import AttemptSpan

Why = Literal["cancel", "lost", "drain", "yield"]
"""``cancel``: the client has left or asked for it. ``lost``: another owns the job now, or nobody. ``drain``: this
worker stops. ``yield``: a person's job needs the place."""


_NO_CHAT, _NOTHING = Chat("", []), Said()


class StoppedError(Exception):
    """The job was stopped from outside; ``Hand.why`` tells why."""


class Hand:
    """One attempt: the grant, the back end, and the one way to stop it from outside."""

    __slots__ = (
        "_more",
        "away",
        "before",
        "begun",
        "begun_spent",
        "chat",
        "closing",
        "engine",
        "events",
        "first_at",
        "had",
        "heard",
        "job",
        "orphan_at",
        "pace",
        "prefilled",
        "span",
        "started_at",
        "stream",
        "task",
        "tokens",
        "told",
        "trace",
        "upto",
        "usage",
        "whole",
        "why",
    )

    def __init__(self, job: Granted, engine: Engine, before: Hand | None = None) -> None:
        self.job = job
        self.engine = engine
        self.why: Why | None = None
        self.chat = _NO_CHAT
        self.begun = _NOTHING
        """What earlier attempts had said, from which this one goes on."""
        self.begun_spent = 0
        """Tokens that they took."""
        self.heard = Heard()
        """That, and what has come since."""
        self.events = 0
        """Events of this attempt that were sent on to the client's gateway."""
        self.whole = False
        """The client gets the answer in one piece, so till its end nothing has been said."""
        self.tokens: int | None = None
        """Tokens of prompt and answer, as the engine counted them."""
        self.usage: Usage | None = None
        """All that it counted, of this attempt alone."""
        self.stream = f"{job.id} {job.fence}"
        """Names this attempt: the next one at the same job may begin here before this one is put away."""
        self.started_at = engine.clock()
        self.first_at: float | None = None
        self.pace = Pace(job.fence)
        self.trace = ""
        """Of its record, as ``NewJob.trace``."""
        self.span: AttemptSpan | None = None
        """None: it is not traced."""
        self.closing = False
        """It is being settled or given back: what becomes of it is known from the answer to that."""
        self.orphan_at: float | None = None
        """Since when the store has not known it, while it answers. By the engine's clock."""
        self.upto = job.upto
        """Up to which token of its prompt, as estimated, it may be read now; 0: all of it, answer included."""
        self._more: asyncio.Event | None = None
        self.had = 0
        """Up to which token its prompt has been read, as long as that is done in pieces,"""
        self.told = 0
        """and as far as the store knows."""
        self.prefilled = False
        """The store knows that the first words of the answer have come."""
        self.away = asyncio.Event()
        """The attempt is over, and all that it had to say has been said."""
        self.before = before
        """An attempt at the same job that was given back or taken away, and may not have heard of it yet."""
        self.task: asyncio.Task[object] | None = None
        """Who is in ``stoppable``."""

    @property
    def more(self) -> asyncio.Event:
        """It may be read further, or a piece of it has come to its end. Of use to the few that are read in pieces."""
        if self._more is None:
            self._more = asyncio.Event()
        return self._more

    def begin(self, chat: Chat, heard: Heard | None) -> None:
        """``heard``: what earlier attempts had said; None: nothing."""
        self.chat = chat
        if heard is not None:
            self.heard, self.begun, self.begun_spent = heard, heard.said(), heard.pieces
        else:
            self.heard.pieces = self.begun_spent = self.job.spent
        self.whole = not chat.stream

    @property
    def complete(self) -> bool:
        """All of the answer's words have come; at most counts are missing."""
        return self.heard.finished and self.chat.n == 1

    @property
    def yields(self) -> bool:
        """It is background work of which its client has had nothing from this attempt: it may as well begin later."""
        return self.job.lane == "background" and not self.closing and (self.whole or not self.events)

    @property
    def spent(self) -> int:
        """Tokens of the answer so far, over all attempts; about one a piece."""
        return self.heard.pieces

    def line(self) -> list[Hand]:
        """This one and the attempts before it. Of the last of them the answer is being written."""
        return [self, *(self.before.line() if self.before is not None else ())]

    def may_read(self, upto: int) -> None:
        """The store lets its prompt be read further. What it has once granted stands."""
        if self.upto and (not upto or upto > self.upto):
            self.upto = upto
            self.more.set()

    def adopted(self, fence: int, inbox: str) -> None:
        """The store lost the job and has it again: it is the same attempt, under another fence. Of pieces it knows
        nothing any more."""
        self.job = replace(self.job, fence=fence, inbox=inbox)
        self.orphan_at = None
        self.prefilled = False
        self.may_read(0)

    def stop(self, why: Why) -> None:
        """Stops what runs in ``stoppable``, now or as soon as it would begin. The first reason stands, but that a lost
        job is lost."""
        if self.why is None or why == "lost":
            first, self.why = self.why is None, why
            if first and self.task is not None:
                self.task.cancel()

    def stoppable(self) -> Stoppable:
        """Around what may be broken off. Raises ``StoppedError``; a cancellation from elsewhere goes on as it is."""
        return Stoppable(self)


class Stoppable:
    """See ``Hand.stoppable``."""

    __slots__ = ("_hand", "_task")

    def __init__(self, hand: Hand) -> None:
        self._hand = hand

    def __enter__(self) -> None:
        if self._hand.why is not None:
            raise StoppedError
        self._task = self._hand.task = asyncio.current_task()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._hand.task = None
        if not isinstance(error, asyncio.CancelledError) or self._hand.why is None or self._task is None:
            return
        if self._task.uncancel() == 0:
            raise StoppedError from None
