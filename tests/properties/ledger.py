"""What the clients asked for and got: P1 (one unbroken text), P2 (one end), P3 (one fence)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from msgspec import structs

from buffer.heard import UNSEEN_TOKENS, Said
from buffer.job import Chat, Usage
from buffer.records import NewJob
from tests.properties.text import words

PROMPT_TOKENS = 40
NEEDLESS = frozenset(("interrupted", "lost", "broken_off", "worker_stopped"))
"""Failures that say that an answer could not be gone on with."""


class Violation(AssertionError):  # noqa: N818  (what it says, not a mistake in the test)
    """A property does not hold."""


@dataclass
class Client:
    """One job as its client sees it."""

    job: NewJob
    chat: Chat
    total: int
    """Words of the whole answer."""
    thoughts: int
    """Words that are thought ahead of it."""
    resumable: bool
    whole: bool
    """Its answer comes in one piece."""
    text: str = ""
    thought: str = ""
    usage: list[Usage] = field(default_factory=list)
    end: str = ""
    left: bool = False
    """It hung up, or its gateway died: it will not hear of an end."""
    submitted: bool = False
    """Its gateway knows that it went in."""
    orphaned: bool = False
    """Its gateway died, or slept for long."""
    second: Said = field(default_factory=Said)
    """Of a detached job whose client came back: what it has read since,"""
    last_id: str = ""
    """the id of the last piece of that,"""
    second_end: str = ""
    """and how that ended."""

    def again(self) -> Client:
        """Who was not let in asks once more."""
        job = structs.replace(self.job, id=f"{self.job.id}+")
        return Client(job, self.chat, self.total, self.thoughts, self.resumable, self.whole)

    @property
    def tokens(self) -> int:
        """Of the whole answer."""
        return self.total + (self.thoughts + UNSEEN_TOKENS if self.thoughts else 0)

    @property
    def over(self) -> bool:
        return self.left or bool(self.end)


@dataclass
class Ledger:
    clients: dict[str, Client] = field(default_factory=dict)
    attempts: dict[tuple[str, int], Said] = field(default_factory=dict)
    """(job, attempt) → what it went on from."""
    top: dict[str, int] = field(default_factory=dict)
    """Highest fence seen of a job's record, since the store last lost something."""
    counts: Counter[str] = field(default_factory=Counter)
    ended: set[str] = field(default_factory=set)
    """Jobs whose record was seen to be done."""
    lossy: bool = False
    """The store has lost something: who reads from it alone may find another attempt at what it has read."""

    def attempt(self, job_id: str, said: Said) -> int:
        number = len(self.attempts) + 1
        self.attempts[job_id, number] = said
        return number

    def deliver(self, job_id: str, piece: str, *, thought: bool = False) -> None:
        client = self.clients[job_id]
        if client.end:
            raise Violation(f"P2: a word for {job_id} after its end ({client.end}): {piece!r}")
        if thought:
            if client.text:
                raise Violation(f"P1: {job_id} thinks {piece!r} after {client.text!r}")
            client.thought += piece
        else:
            client.text += piece
        self._unbroken(client, Said(client.text, client.thought))

    def finish(self, job_id: str, kind: str, code: str = "") -> None:
        client = self.clients[job_id]
        if client.end:
            raise Violation(f"P2: a second end ({kind} after {client.end}) for {job_id}")
        client.end = kind
        if code == "internal_error":
            raise Violation(f"P9: {job_id} met a defect")
        self.counts[f"{kind} {code}".strip()] += 1
        if kind == "done":
            self._complete(client, Said(client.text, client.thought))
            self._paid(client)
        elif self._needless(client, code, Said(client.text, client.thought)):
            raise Violation(f"P9: {job_id} failed ({code}), and could have been gone on with from {client.text!r}")

    def deliver_again(self, job_id: str, piece: str, *, thought: bool) -> None:
        """To a client that came back."""
        client = self.clients[job_id]
        before = client.second
        client.second = (
            Said(before.text, before.thought + piece) if thought else Said(before.text + piece, before.thought)
        )
        self._unbroken(client, client.second, strict=not self.lossy)

    def finish_again(self, job_id: str, kind: str, code: str) -> None:
        client = self.clients[job_id]
        client.second_end = kind
        if code == "internal_error":
            raise Violation(f"P9: {job_id} met a defect")
        self.counts[f"came back: {kind} {code}".strip()] += 1
        if kind == "done":
            self._complete(client, client.second)
        elif code != "lost" and self._needless(client, code, client.second):
            raise Violation(f"P9: {job_id} failed ({code}), and could have been gone on with from {client.second!r}")
        elif code == "lost" and client.submitted and not (self.lossy and (client.orphaned or job_id in self.ended)):
            raise Violation(f"P9: who came back for {job_id} was told that it is lost")

    @staticmethod
    def _needless(client: Client, code: str, said: Said) -> bool:
        """Whether an end says that the answer could not be gone on with, and it could: there is always a back end that
        can."""
        return code in NEEDLESS and client.resumable and bool(said.text or not said.thought)

    def forget(self) -> None:
        """The store has lost something."""
        self.top.clear()
        self.lossy = True

    @staticmethod
    def _complete(client: Client, said: Said) -> None:
        got = len(words(said.thought)), len(words(said.text))
        if got != (client.thoughts, client.total):
            raise Violation(f"P1: {client.job.id} is done with {got}, not {(client.thoughts, client.total)} words")

    def _paid(self, client: Client) -> None:
        """The usage of all attempts together is that of one. Where a worker died between the last word and the counts,
        there are none.
        """
        if not client.usage:
            self.counts["done without counts"] += 1
            return
        used = [(usage.prompt, usage.completion) for usage in client.usage]
        if used != [(PROMPT_TOKENS, client.tokens)]:
            raise Violation(f"P1: {client.job.id} is charged {used} for {client.tokens} tokens")

    def _unbroken(self, client: Client, said: Said, *, strict: bool = True) -> None:
        """Thoughts, then words, each numbered without a gap; where the attempt changes, the new one went on from just
        what there was.
        """
        last = None
        for part, thinks in ((said.thought, True), (said.text, False)):
            at = 0
            for place, (number, attempt) in enumerate(words(part)):
                if number != place:
                    raise Violation(f"P1: {client.job.id} has word {number} in place {place}: {said!r}")
                if attempt != last:
                    before = Said("", part[:at]) if thinks else Said(part[:at], said.thought)
                    went_on = self.attempts[client.job.id, attempt]
                    if strict and went_on != before:
                        raise Violation(
                            f"P1: attempt {attempt} of {client.job.id} went on from {went_on!r}, not {before!r}"
                        )
                    last = attempt
                at += len(f"{number}.{attempt} ")

    def fence(self, job_id: str, fence: int) -> None:
        """The fence in a job's record, as it was just seen."""
        top = self.top.get(job_id, 0)
        if fence < top:
            raise Violation(f"P3: the fence of {job_id} went back from {top} to {fence}")
        self.top[job_id] = fence
