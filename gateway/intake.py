"""A chat becomes a job: its lane, its user, and what it will probably cost."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from hashlib import blake2b

from buffer.job import Chat, Failure, Lane, Usage, encode_chat
from buffer.records import NewJob, Submitted
from buffer.settings import Settings
from gateway.call import Call
from gateway.dialects.openwebui import TITLE, task
from gateway.models import Model
from gateway.pools import Pool
from gateway.prompt import newest_user_chars, prompt_parts
from policy.admission import over_share, queue_full
from policy.estimate import OutputLengths, Rate, predicted_wait_s, prefill_s
from policy.lane import LaneLimits, choose_lane, is_long, lower
from policy.order import offset_s
from policy.prefix import Chain, PrefixIndex, chain

ASKS_TO_THINK = frozenset({"on", "low", "medium", "high", "max"})
_LONGEST_USER = 64


@dataclass(frozen=True, slots=True)
class Order:
    """A job ready to be submitted, and what its gateway keeps of it."""

    chat: Chat
    job: NewJob
    pool: Pool
    links: Chain
    title: bool
    """It asks for the title of a chat that is only just coming in."""


class Intake:
    """Makes orders, and learns from how they end: what prefix caches hold, how long answers are, how fast it goes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._limits = LaneLimits(
            fast_chars=settings.fast_chars,
            normal_chars=settings.normal_chars,
            fast_tokens=settings.fast_tokens,
            normal_tokens=settings.normal_tokens,
        )
        self._prefixes = PrefixIndex()
        self._lengths = OutputLengths()
        self._ends = Rate()

    def order(self, chat: Chat, model: Model, pool: Pool, call: Call, *, told: bytes = b"", det: bool = False) -> Order:
        """The order that ``chat`` amounts to, sent by ``call`` for ``model``, whose back ends are in ``pool``.
        ``told``, ``det``: see ``NewJob``.

        Changes nothing here, so that a thread may do it.
        """
        links = chain(model.queue.encode(), prompt_parts(chat))
        prompt_tokens = links[-1].tokens if links else 1
        new_tokens = max(1, prompt_tokens - self._prefixes.known(links))
        asked = task(call.headers, chat)
        lane = self._lane(chat, model, call, new_tokens, background=bool(asked))
        output = self._lengths.expected(lane, chat.max_tokens) * chat.n
        max_wait_s = self._settings.max_wait_seconds
        job = NewJob(
            id=secrets.token_hex(16),
            model=model.queue,
            name=model.name,
            lane=lane,
            user=user_of(call),
            inbox="",
            body=encode_chat(chat),
            offset_us=round(offset_s(lane, prefill_s(new_tokens), max_wait_s) * 1e6),
            max_wait_us=round(max_wait_s * 1e6),
            timeout_us=round(self._settings.queue_timeout_seconds * 1e6),
            cost=new_tokens + output,
            kv=prompt_tokens + output,
            prefill=new_tokens,
            long=is_long(new_tokens, self._limits),
            owner=owner_of(call),
            told=told,
            det=det,
            share=call.share,
        )
        return Order(chat, job, pool, links, title=asked == TITLE)

    def started(self, order: Order) -> None:
        """Its first piece came, so an engine has read its prompt."""
        self._prefixes.add(order.links)

    def ended(self, order: Order, usage: Usage | None) -> None:
        """It was answered, so a place in the queue became free."""
        self._ends.add(time.monotonic())
        if usage is not None:
            self._lengths.add(order.job.lane, usage.completion)

    def full(self, submitted: Submitted) -> Failure:
        """What a client is told whose job found no place."""
        limit, rate = self._settings.queue_limit, self._ends.per_s(time.monotonic())
        if submitted.status == "over":
            refusal, code = over_share(submitted.waiting, submitted.users, limit, rate), "over_share"
        else:
            refusal, code = queue_full(submitted.waiting, limit, rate), "queue_full"
        return Failure(refusal.reason, refusal.status, code, retry_after_s=refusal.retry_after_s)

    def starts_in_s(self, ahead: int) -> float | None:
        """When a job will probably start that has ``ahead`` before it; None: nothing has been answered yet."""
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
        wished = call.header(b"x-doublebuffer-lane").strip().lower()
        return lower(chosen, wished, may_raise=wished in call.key_lanes) if wished else chosen


def owner_of(call: Call) -> str:
    """Whose request it is: only they may ask for its answer, and its places are of their share."""
    return f"key:{call.key}" if call.key else f"address:{call.address}"


def user_of(call: Call) -> str:
    """Whose turn it takes: the person's behind Open WebUI where that may be believed, else the key's, the address'."""
    person = call.header(b"x-openwebui-user-id") if call.trusted else ""
    if person:
        user = f"person:{person}"
    elif call.key:
        user = f"key:{call.key}"
    else:
        user = f"address:{call.address}"
    if len(user) <= _LONGEST_USER:
        return user
    return f"hash:{blake2b(user.encode(), digest_size=16).hexdigest()}"
