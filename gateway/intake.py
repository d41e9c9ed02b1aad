"""A chat becomes a job: its lane, its user, and what it will probably cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from hashlib import blake2b

from msgspec import Struct

from buffer.job import Chat, Failure, Lane, Usage, encode_chat
from buffer.records import NewJob, Submitted
from buffer.settings import Settings
from buffer.telemetry import Telemetry
from gateway.admission import Admission
from gateway.beginnings import Beginnings
from gateway.call import Call
from gateway.dialects.openwebui import TITLE, task
from gateway.ids import new_id
from gateway.models import Model
from gateway.noting import Noting
from gateway.pools import Pool
from gateway.prompt import newest_user_chars, prompt_parts
from policy.admission import over_share, queue_full
from policy.credit import claim_tokens
from policy.estimate import Rate, predicted_wait_s, prefill_s
from policy.lane import LaneLimits, choose_lane, is_long, lower
from policy.order import offset_s
from policy.outlook import NOTHING, Outlook, outlook
from policy.prefix import Chain, Mixed, chain

ASKS_TO_THINK = frozenset({"on", "low", "medium", "high", "max"})
_LONGEST_USER = 64
_USER = b"x-openwebui-user-id"
_LANE = b"x-doublebuffer-lane"


class Order(Struct, frozen=True):
    """A job ready to be submitted, and what its gateway keeps of it."""

    chat: Chat
    job: NewJob
    pool: Pool
    links: Chain
    title: bool
    """It asks for the title of a chat that is only just coming in."""
    output: int = 0
    """Tokens that its answer is expected to have."""
    known: Outlook = NOTHING
    """What its back ends tell of how long it would wait."""
    comes: bool = False
    """No engine serves it yet, and one is started: how long that takes says nothing of other waits."""


class Intake:
    """Makes orders, and learns from what becomes of them: what prefix caches hold, and how fast it goes."""

    def __init__(self, settings: Settings, telemetry: Telemetry) -> None:
        self._settings = settings
        self._limits = LaneLimits(
            fast_chars=settings.fast_chars,
            normal_chars=settings.normal_chars,
            fast_tokens=settings.fast_tokens,
            normal_tokens=settings.normal_tokens,
        )
        self._max_wait_s = settings.max_wait_seconds
        self._max_wait_us = round(settings.max_wait_seconds * 1e6)
        self._timeout_s = settings.queue_timeout_seconds
        self._beginnings = Beginnings()
        self._telemetry = telemetry
        self._admission = Admission(settings, telemetry)
        self.waits = self._admission.waits
        """The store has it, and says how many wait there."""
        self._ends = Rate()
        self.noting = Noting()
        """Has to run beside."""

    def order(
        self, chat: Chat, model: Model, pool: Pool, call: Call, *, told: bytes = b"", det: bool = False, id: str = ""
    ) -> Order:
        """The order that ``chat`` amounts to, sent by ``call`` for ``model``, whose back ends are in ``pool``.
        ``told``, ``det``: see ``NewJob``. ``id``: of its job, where that has been chosen.

        Changes nothing here but counts, so that a thread may do it.
        """
        figures = model.figures
        parts = prompt_parts(chat)
        links = chain(model.queue.encode(), parts, tokens_per_byte=figures.tokens_per_byte)
        prompt_tokens = links[-1].tokens if links else 1
        known = self._beginnings.of(links, model)
        new_tokens = max(1, prompt_tokens - known.tokens)
        asked = task(call.headers, chat)
        if asked:
            self.noting.task(call.headers)
        lane = self._lane(chat, model, call, new_tokens, background=bool(asked))
        output = figures.expected_output(lane, chat.max_tokens) * chat.n
        read_s = prefill_s(new_tokens, figures.prefill_rate)
        long = is_long(new_tokens, self._limits)
        claim = claim_tokens(prompt_tokens, output)
        max_wait_s = self._max_wait_s
        job = NewJob(
            id=id or new_id(),
            model=model.queue,
            name=model.name,
            lane=lane,
            user=user_of(call),
            inbox=pool.inbox.name,
            body=encode_chat(chat),
            offset_us=round(offset_s(lane, read_s, max_wait_s) * 1e6),
            max_wait_us=self._max_wait_us,
            timeout_us=round((self._timeout_s + model.comes_in_s) * 1e6),
            cost=new_tokens + output,
            kv=claim,
            prefill=new_tokens,
            prompt=max(prompt_tokens, new_tokens),
            splits=chat.n == 1 and Mixed not in map(type, parts),
            long=long,
            owner=owner_of(call),
            told=told,
            det=det,
            share=call.share,
            near=known.near,
            behind=known.behind,
            trace=call.span.trace if call.span is not None else "",
        )
        foreseen = outlook(
            figures,
            model.engines,
            lane=lane,
            new_tokens=new_tokens,
            claim=claim,
            max_tokens=chat.max_tokens,
            alone_s=read_s + output / chat.n / figures.token_rate if long else 0.0,
        )
        return Order(chat, job, pool, links, asked == TITLE, output, foreseen, model.comes_in_s > 0)

    def check(self, orders: Sequence[Order]) -> None:
        """Raises ``Refusal`` where one of them would have to wait for too long."""
        if self._admission.waiting:
            self._admission.check([(order.job, order.known) for order in orders if not order.comes])

    def sent(self, order: Order) -> None:
        """It is on its way to the queue: what shares its beginning need not be read beside it."""
        self._beginnings.sent(order.job.id, order.links)
        self.noting.sent(order.job)
        if not order.comes:
            self._admission.came(order.job, order.known)

    def began(self, order: Order) -> None:
        """A worker has taken it."""
        self._admission.began(order.job.id)

    def started(self, order: Order, backend: str) -> None:
        """Its first piece came from there, so that engine has read its prompt."""
        self._beginnings.read(order.job.id, order.links, backend)

    def gone(self, order: Order) -> None:
        """It is over, answered or not."""
        self._beginnings.gone(order.job.id)
        self._admission.left(order.job.id)

    def ended(self, order: Order, usage: Usage | None) -> None:
        """It was answered, so a place in the queue became free."""
        self._ends.add(time.monotonic())
        if usage is not None:
            self._telemetry.estimated("prompt_tokens", order.job.prompt, usage.prompt)
            self._telemetry.estimated("output_tokens", order.output, usage.completion)

    def full(self, submitted: Submitted) -> Failure:
        """What a client is told whose job found no place."""
        limit, rate = self._settings.queue_limit, self._ends.per_s(time.monotonic())
        if submitted.status == "over":
            refusal, code = over_share(submitted.waiting, submitted.users, limit, rate), "over_share"
        else:
            refusal, code = queue_full(submitted.waiting, limit, rate), "queue_full"
        return Failure(refusal.reason, refusal.status, code, retry_after_s=refusal.retry_after_s)

    def starts_in_s(self, model: str, ahead: int) -> float | None:
        """When a job for the model of that queue will probably start that has ``ahead`` before it; None: nothing has
        been answered yet."""
        starts_in_s = self._admission.starts_in_s(model, ahead)
        if starts_in_s is not None:
            return starts_in_s
        rate = self._ends.per_s(time.monotonic())
        return predicted_wait_s(ahead + 1, rate) if rate > 0 else None

    def _lane(self, chat: Chat, model: Model, call: Call, new_tokens: int, *, background: bool) -> Lane:
        chosen = choose_lane(
            newest_user_chars(chat),
            new_tokens,
            thinking=chat.think in ASKS_TO_THINK and model.can_think,
            background=background,
            limits=self._limits,
        )
        if _LANE not in call.headers:
            return chosen
        wished = call.header(_LANE).strip().lower()
        return lower(chosen, wished, may_raise=wished in call.key_lanes)


def owner_of(call: Call) -> str:
    """Whose request it is: only they may ask for its answer, and its places are of their share."""
    return f"key:{call.key}" if call.key else f"address:{call.address}"


def user_of(call: Call) -> str:
    """Whose turn it takes: the person's behind Open WebUI where that may be believed, else the key's, the address'."""
    person = call.header(_USER) if call.trusted and _USER in call.headers else ""
    if person:
        user = f"person:{person}"
    elif call.key:
        user = f"key:{call.key}"
    else:
        user = f"address:{call.address}"
    if len(user) <= _LONGEST_USER:
        return user
    return f"hash:{blake2b(user.encode(), digest_size=16).hexdigest()}"
