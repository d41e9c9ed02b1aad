"""Every key's name and lifetime.

All keys of a pool begin with one hash tag, so they share a Cluster slot and a script may build any of them from the
base.
"""

from __future__ import annotations

JOB_S = 3600
"""Lifetime of an open job and of its reply; submit, renew and watch begin it anew. Scripts know it as ``JOB_S``."""
DONE_JOB_S = 600
"""Lifetime of a settled job's record, which answers a repeated settle."""
DONE_REPLY_S = 60
CANCELLED_REPLY_S = 2
"""How long an answer outlives its job's end; a detached one lives ``DONE_JOB_S``."""
FAIR_S = 3600
MODELS_S = 86400
PLACES_S = 3600
MEMORY_S = 86400
"""Lifetimes of what back ends are known by; what has run out is noted anew."""
INBOX_S = 15
"""Begun anew by each watch (every 5 s)."""
SPARE_S = 86400
CTL_S = 60
BODY_S = 60
"""Lifetime of a large body that was put ahead of its submit."""
SWEPT_S = 86400
CLAIMED_S = 3600
"""Lifetime of what an idempotency key stands for while that is under way; of its answer, ``DONE_JOB_S``."""

FIXED = (
    "jobs:thinking",
    "jobs:fast",
    "jobs:normal",
    "jobs:slow",
    "jobs:background",
    "lease",
    "backends",
    "bell",
    "dead",
)
"""Names (after the base) that live without a lifetime. ``wait:``, ``turn:``, ``due:``, ``load:`` and ``inputs`` have
none either, and empty themselves.
"""
SELF_EMPTYING = ("wait:", "turn:", "due:", "load:", "inputs")


def claimed(prefix: str, digest: str) -> str:
    """Hash: what an idempotency key stands for. ``digest``: of the key and of whoever sent it. Of no pool: requests for
    models of several pools may come with the same key.
    """
    return f"{prefix}:claimed:{{{digest}}}"


def answers(prefix: str) -> str:
    """What the names of kept answers begin with. Of no pool; all in one Cluster slot, and all with a lifetime.

    Behind it: ``answer:<digest>``, an answer; ``flight:<digest>``, hash, the job that makes one and who waits for it;
    ``answers``, sorted set, digest → end of its life, µs; ``about``, hash, digest → its bytes and its model; ``held``,
    bytes of all; ``purged``, hash, model → instant of the last purge, µs.
    """
    return f"{prefix}:{{answers}}:"


def counted(prefix: str, slot: int) -> str:
    """Hash: what was counted → how often, in five seconds, by all processes. Of no pool; all of them in one Cluster
    slot.
    """
    return f"{prefix}:counted:{{all}}:{slot}"


def signing(prefix: str) -> str:
    """What sign-ins to the dashboard are signed with. Of no pool."""
    return f"{prefix}:signing:{{all}}"


def tries(prefix: str) -> str:
    """Base of the lists ``quota:<number>``: instants of the last tries to sign in to the dashboard from the addresses
    that share the number; each goes a minute after the last. Of no pool.
    """
    return f"{prefix}:sign-in:{{all}}:"


class Keys:
    """Names of one pool's keys. ``prefix`` is there for tests that share a server."""

    def __init__(self, pool: str = "default", prefix: str = "doublebuffer") -> None:
        self.pool = pool
        self.base = f"{prefix}:{{{pool}}}:"

    def job(self, id: str) -> str:
        return f"{self.base}job:{id}"

    def reply(self, id: str) -> str:
        return f"{self.base}reply:{id}"

    def jobs(self, lane: str) -> str:
        return f"{self.base}jobs:{lane}"

    def wait(self, model: str, lane: str) -> str:
        return f"{self.base}wait:{model}:{lane}"

    def turn(self, model: str, lane: str) -> str:
        return f"{self.base}turn:{model}:{lane}"

    def due(self, model: str) -> str:
        return f"{self.base}due:{model}"

    def left(self, model: str) -> str:
        """Sorted set: job that a back end failed → instant until which that one leaves it to others, µs. For back ends
        that stand in for it.
        """
        return f"{self.base}left:{model}"

    def fair(self, model: str, lane: str) -> str:
        """Sorted set: ``V`` → the queue's clock, ``u:<user>`` → the user's next turn, ``l:<user>`` → that of the last
        job; users behind the clock are cut off without looking at the others.
        """
        return f"{self.base}fair:{model}:{lane}"

    @property
    def lease(self) -> str:
        return f"{self.base}lease"

    def load(self, backend: str) -> str:
        """Hash: job → what it takes there: claimed memory, prompt tokens being sent and read, whether it is long; lane,
        arrival and score; tokens of its prompt, up to which of them it was sent, and read.
        """
        return f"{self.base}load:{backend}"

    def pace(self, backend: str) -> str:
        """Until when nothing more is sent there to be read, but alone: µs."""
        return f"{self.base}pace:{backend}"

    def heed(self, backend: str) -> str:
        """Hash: ``until`` when background work is read with care there, since a person's job went there a moment ago,
        and before when, ``next``, nothing more of it is sent; µs.
        """
        return f"{self.base}heed:{backend}"

    def places(self, model: str) -> str:
        """Hash: back end that pulls for the model → how many jobs it takes; 0: only in another's place. Written where
        that has changed.
        """
        return f"{self.base}places:{model}"

    def memory(self, backend: str) -> str:
        """Hash, of one that swaps models: ``model`` of the last job sent there, ``since`` when, and ``at`` when the
        swap for it began, µs; 0: not yet, jobs of another run there still.
        """
        return f"{self.base}memory:{backend}"

    @property
    def backends(self) -> str:
        """Set of the names of back ends that ever pulled."""
        return f"{self.base}backends"

    @property
    def models(self) -> str:
        """Sorted set: queue name of a model → instant of its last submit, µs. What ``depths`` and the queue limit look
        through.
        """
        return f"{self.base}models"

    def inputs(self, lane: str) -> str:
        """Hash: waiting job of embeddings → how many inputs it has, if several. For the queue's limit; one for
        ``background``, one for all else.
        """
        return f"{self.base}inputs:background" if lane == "background" else f"{self.base}inputs"

    def inbox(self, name: str) -> str:
        """``name`` is ``<gateway>:<incarnation>``, as it stands in a job's ``inbox`` field."""
        return f"{self.base}inbox:{name}"

    def ctl(self, worker: str) -> str:
        """Stream; and the channel to which the worker is subscribed while it lives."""
        return f"{self.base}ctl:{worker}"

    @property
    def standing(self) -> str:
        """Sorted set: worker with standing orders → until when they hold, µs. It lives as long."""
        return f"{self.base}standing"

    def orders(self, worker: str) -> str:
        """Hash: back end → segment, pause, lease, whether it swaps models; and the models. With a lifetime, as long as
        the orders hold.
        """
        return f"{self.base}orders:{worker}"

    @property
    def bell(self) -> str:
        return f"{self.base}bell"

    @property
    def swept(self) -> str:
        return f"{self.base}swept"

    @property
    def sweep(self) -> str:
        """Hash: lane → id up to which the reaper has looked for left-over entries of ``jobs:<lane>``."""
        return f"{self.base}sweep"

    def crowd(self, lane: str) -> str:
        """Hash: user → waiting jobs (of embeddings: inputs), counted when a full queue refuses somebody, for a second;
        one for ``background``, one for all else.
        """
        return f"{self.base}crowd:background" if lane == "background" else f"{self.base}crowd"

    def quota(self, name: str) -> str:
        """List: instants of the last requests with a client's key, newest first; it goes a minute after the last."""
        return f"{self.base}quota:{name}"

    @property
    def dead(self) -> str:
        return f"{self.base}dead"

    def worker(self, id: str) -> str:
        """A worker's presence: JSON ``WorkerPresence``, with a lifetime."""
        return f"{self.base}worker:{id}"

    @property
    def workers(self) -> str:
        """Sorted set: worker → instant at which its presence ends, µs. Readers trim it."""
        return f"{self.base}workers"

    def gateway(self, id: str) -> str:
        """A gateway's presence: JSON ``GatewayPresence``, with a lifetime."""
        return f"{self.base}gateway:{id}"

    @property
    def gateways(self) -> str:
        """Sorted set: gateway → instant at which its presence ends, µs. Readers trim it."""
        return f"{self.base}gateways"

    def state(self, backend: str) -> str:
        """What is known of a back end: JSON ``BackendState``, with a lifetime."""
        return f"{self.base}state:{backend}"

    def spare(self, backend: str) -> str:
        """Hash, of a back end that is started when it is needed: ``owner``, the worker that decides about it, ``until``
        when, µs, the ``fence`` of that; and ``stand``, how it stands, in words of the workers' own.
        """
        return f"{self.base}spare:{backend}"

    @property
    def states(self) -> str:
        """Sorted set: back end → instant at which its state ends, µs. Readers trim it."""
        return f"{self.base}states"
