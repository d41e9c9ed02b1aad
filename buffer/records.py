"""What goes into the lanes' scripts and what comes out of them. Instants and spans are in microseconds of the store's
own clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast

from msgspec import Struct

from buffer.heard import Said
from buffer.job import End, Lane

JobState = Literal["waiting", "running", "held", "done", "gone"]
"""``held``: its worker died, and its gateway is being asked. ``gone``: there is no record of it."""


class NewJob(Struct, frozen=True, kw_only=True):
    """A job as the gateway submits it."""

    id: str
    model: str
    """Queue name of the model."""
    lane: Lane
    user: str
    inbox: str
    """Where its frames go: ``Inbox.name`` of its gateway."""
    body: bytes
    """The chat, as ``encode_chat`` gives it."""
    offset_us: int = 0
    """Lane offset + 4 × prefill, at most the longest wait: its score is its arrival plus this."""
    max_wait_us: int = 60_000_000
    """How much later a job may arrive and still pass it. A background job has no such claim."""
    timeout_us: int = 120_000_000
    """After so long in the queue it expires."""
    cost: int = 1
    """Expected tokens, prompt and answer: what its user's turn is charged."""
    kv: int = 0
    """Tokens of the engine's memory that it claims: its prompt and half of the expected answer."""
    prefill: int = 0
    """Prompt tokens that the engine has to read anew."""
    prompt: int = 0
    """All tokens of the prompt; at least ``prefill``."""
    splits: bool = False
    """Its prompt may be read in pieces."""
    long: bool = False
    det: bool = False
    """Detached: lives on without its client's connection."""
    inputs: int = 0
    """Embeddings: how many inputs it has. Where this is set, the queue's limit counts inputs, not jobs."""
    owner: str = ""
    """Who may ask for its answer, and whose share it takes: ``key:<name>`` or ``address:<ip>``."""
    share: int = 0
    """Thousandths of a back end's places that its owner may have while others wait; 0: no limit."""
    name: str = ""
    """What model lists call the model; empty: as ``model``."""
    told: bytes = b""
    """How its answer is to be told to whoever comes back for it; lives as long as the answer."""
    near: str = ""
    """The back end that holds the beginning of its prompt, and gets it if it has a place soon; empty: none."""
    behind: str = ""
    """The job whose first token it waits for where that one runs: it reads a part of this one's prompt. Empty: none."""
    trace: str = ""
    """W3C's ``traceparent`` of the span that its attempts belong to, and behind a semicolon the ``tracestate``; empty:
    it is not traced."""


class Submitted(Struct, frozen=True):
    status: Literal["new", "full", "over", "known", "homeless", "restored"]
    """``known``: the job had been submitted before (the answer to a lost acknowledgement). ``homeless``: refused, since
    its inbox is gone. ``full`` and ``over``: refused, since the queue is full; ``over`` where its user has more in it
    than the limit over all users who wait. ``restored``: it had been lost, and is there once more."""
    fence: int
    state: JobState
    waiting: int
    """Jobs of people (no background ones) that wait in the pool, this one included if it is new; for Retry-After. Of
    embeddings: inputs. Where it is ``over``: those of its user,"""
    users: int = 0
    """and how many users wait."""
    backend: str = ""
    """Where it runs already, by a standing order: no frame tells of its start."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a back end may carry over all workers. 0: no limit (``slots`` must be set)."""

    slots: int
    kv: int = 0
    prefill: int = 0
    """Prompt tokens sent whose first token has not come yet; ``fast`` jobs are neither counted nor held up by it."""
    long: int = 0
    reserved_slots: int = 0
    """Slots that only ``fast`` and ``thinking`` jobs may take."""
    kv_reserve: int = 0
    """KV tokens that only ``fast`` and ``thinking`` jobs may take."""
    segment: int = 0
    """Tokens of the largest piece of a long prompt; then ``prefill`` is worked out anew at each pull. 0: prompts go
    whole."""
    pause_us: int = 0
    """How long nothing more is sent to be read beside what is, after something was."""


@dataclass(slots=True)
class Granted:
    """A job that this worker now owns, for as long as it renews. Nobody changes it; frozen, it would cost three times
    as much to make.
    """

    id: str
    fence: int
    model: str
    lane: Lane
    user: str
    inbox: str
    prefix: str
    """Text of the answer to go on from; empty: from the start. ``@reply``: the fold of the reply key (detached jobs).
    """
    base: str
    """Fingerprint of ``prefix``."""
    spent: int
    """Tokens of the answer that earlier attempts used."""
    fails: int
    taken: int
    arr_us: int
    waited_us: int
    kv: int
    prefill: int
    long: bool
    det: bool
    deadline_us: int
    cost: int
    prompt: int = 0
    """All tokens of its prompt, as estimated."""
    upto: int = 0
    """Up to which of them it may be read now; 0: all of it, answer included."""

    @classmethod
    def read(cls, fields: Sequence[bytes]) -> Granted:
        """As the script gives it."""
        # By hand, since it is done for each job: int() takes the digits as they are.
        (
            id, fence, model, lane, user, inbox, prefix, base, spent, fails, taken, arr, waited, kv, prefill, long, det,
            deadline, cost, prompt, upto,
        ) = fields  # fmt: skip
        return cls(
            id.decode(),
            int(fence),
            model.decode(),
            cast(Lane, lane.decode()),
            user.decode(),
            inbox.decode(),
            prefix.decode(),
            base.decode(),
            int(spent),
            int(fails),
            int(taken),
            int(arr),
            int(waited),
            int(kv),
            int(prefill),
            long == b"1",
            det == b"1",
            int(deadline),
            int(cost),
            int(prompt),
            int(upto),
        )


class Piece(NamedTuple):
    """A job in a worker's hands may read more of its prompt: up to this token; 0: all of it, answer included."""

    id: str
    fence: int
    upto: int


@dataclass(frozen=True, slots=True)
class Pulled:
    jobs: list[Granted]
    waiting: int
    """Jobs that still wait for the models asked for, background ones included."""
    bodies: dict[str, bytes] = field(default_factory=dict)
    """By job: what was asked, where that is short."""
    pieces: list[Piece] = field(default_factory=list)
    """Of jobs in this worker's hands. The others' workers are told by their ``ctl`` streams."""
    look_in_us: int = 0
    """After so long something may go for which it is only too early; 0: there is nothing."""
    stands: bool = False
    """The store has a standing order of this worker for this back end."""


@dataclass(frozen=True, slots=True)
class Renewed:
    status: Literal["ok", "cancel", "adopt", "lost", "orphan"]
    """``cancel``: still ours; close the engine's stream, then settle as cancelled. ``lost``: another owns it; write
    nothing more. ``orphan``: the store, empty or older, does not know this attempt. ``adopt``: its gateway has put the
    job there again, and this attempt is to go on with it."""
    inbox: str
    fence: int = 0
    """With ``adopt``: the job's new one. Events count from 1 under it."""
    have: int = 0
    """With ``adopt``: the number, under the old fence, of the last event that the gateway has."""
    upto: int = 0
    """Up to which token its prompt may be read, should a word of that have been lost; 0: all of it."""
    yields: int = 0
    """1: it was asked lately to give its place to a person's job, should that word have been lost."""


class Held(NamedTuple):
    """A job in a worker's hands, as ``renew`` wants it."""

    id: str
    fence: int
    backend: str


@dataclass(frozen=True, slots=True)
class GivenBack:
    """How a running job goes back to its place."""

    why: Literal["error", "drain", "passed"]
    """Only an ``error`` counts as an attempt. ``passed``: it was had by one that cannot go on with it."""
    said: Said = field(default_factory=Said)
    """All that its client will have: what the next attempt goes on from."""
    spent: int = 0
    """Tokens of the answer used so far, over all attempts."""
    max_attempts: int = 3
    """After so many the job ends, as ``failure`` says, and leaves a dead letter."""
    failure: End | None = None
    leave_s: float = 0.0
    """How long the back end that had it leaves it to others, over all workers; if ``passed``, all like it do."""


ReleaseResult = Literal["waiting", "ended", "lost", "orphan", "gone"]
"""``ended``: the attempts are used up. ``orphan``: as ``Renewed``; ``gone``: nobody asked for it for a lease."""
