"""What the clients asked for and got: P1 (one unbroken text), P2 (one end), P3 (one fence)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from buffer.records import NewJob
from tests.properties.text import words


class Violation(AssertionError):  # noqa: N818  (what it says, not a mistake in the test)
    """A property does not hold."""


@dataclass
class Client:
    """One job as its client sees it."""

    job: NewJob
    total: int
    """Words of the whole answer."""
    resumable: bool
    text: str = ""
    end: str = ""
    left: bool = False
    """It hung up, or its gateway died: it will not hear of an end."""
    second: str = ""
    """Of a detached job whose client came back: what it has read from the reply key."""

    @property
    def over(self) -> bool:
        return self.left or bool(self.end)


@dataclass
class Ledger:
    clients: dict[str, Client] = field(default_factory=dict)
    attempts: dict[tuple[str, int], str] = field(default_factory=dict)
    """(job, attempt) → the text it went on from."""
    top: dict[str, int] = field(default_factory=dict)
    """Highest fence seen of a job's record."""
    counts: Counter[str] = field(default_factory=Counter)

    def attempt(self, job_id: str, prefix: str) -> int:
        number = len(self.attempts) + 1
        self.attempts[job_id, number] = prefix
        return number

    def deliver(self, job_id: str, piece: str) -> None:
        client = self.clients[job_id]
        if client.end:
            raise Violation(f"P2: a word for {job_id} after its end ({client.end}): {piece!r}")
        client.text += piece
        self._unbroken(client, client.text)

    def finish(self, job_id: str, kind: str) -> None:
        client = self.clients[job_id]
        if client.end:
            raise Violation(f"P2: a second end ({kind} after {client.end}) for {job_id}")
        client.end = kind
        self.counts[kind] += 1
        if kind == "done" and len(words(client.text)) != client.total:
            raise Violation(f"P1: {job_id} is done with {len(words(client.text))} of {client.total} words")

    def came_back(self, job_id: str, text: str) -> None:
        """A client that came back reads the reply key: nothing that it has read may change."""
        client = self.clients[job_id]
        if not text.startswith(client.second):
            raise Violation(f"P1: the reply of {job_id} was {client.second!r}, and is now {text!r}")
        client.second = text
        self._unbroken(client, text)

    def _unbroken(self, client: Client, text: str) -> None:
        at, last = 0, None
        for place, (number, attempt) in enumerate(words(text)):
            if number != place:
                raise Violation(f"P1: {client.job.id} has word {number} in place {place}: {text!r}")
            if attempt != last:
                if last is not None or place == 0:
                    prefix = self.attempts[client.job.id, attempt]
                    if prefix != text[:at]:
                        raise Violation(
                            f"P1: attempt {attempt} of {client.job.id} went on from {prefix!r}, not {text[:at]!r}"
                        )
                last = attempt
            at += len(f"{number}.{attempt} ")

    def fence(self, job_id: str, fence: int) -> None:
        """The fence in a job's record, as it was just seen."""
        top = self.top.get(job_id, 0)
        if fence < top:
            raise Violation(f"P3: the fence of {job_id} went back from {top} to {fence}")
        self.top[job_id] = fence

    def accepted(self, job_id: str, fence: int, what: str) -> None:
        if fence != self.top.get(job_id, 0):
            raise Violation(f"P3: {what} of {job_id} was taken under fence {fence}, the job is at {self.top[job_id]}")
