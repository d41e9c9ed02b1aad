"""One store, and all that is checked of it: whatever any process does there goes through ``World.execute``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from buffer.access import Command
from buffer.keys import CTL_S, DONE_JOB_S, DONE_REPLY_S, INBOX_S, Keys
from tests.properties import checks, pulls
from tests.properties.calls import Call, asked, call_of, owned
from tests.properties.ledger import Ledger, Violation
from tests.properties.server import Server
from tests.properties.snapshots import Snapshots
from tests.properties.state import State, dump, look
from tests.properties.virtual import now_us

SECOND = 1_000_000
LOOK_FOR_LIFETIMES = 100
QUIET = frozenset(("append", "prefilled", "create", "peek", "place", "depths", "signal"))
"""Scripts after which orders, leases and load are as they were."""
REPEATED = frozenset(
    ("submit", "requeue", "cancel", "watch", "create", "renew", "append", "release", "settle", "prefilled", "recall")
)


@dataclass(frozen=True)
class Names:
    queues: tuple[str, ...]
    backends: tuple[str, ...]


class World:
    """``server``: the real store. The rest of the installation reaches it through ``far.Far``."""

    def __init__(self, server: Server, rng: Random, names: Names) -> None:
        self.server, self.rng, self.names = server, rng, names
        self.keys = Keys(prefix=server.prefix)
        self.ledger = Ledger()
        self.snapshots = Snapshots(server)
        self.faulty = False
        """Whether commands may be lost, late or sent twice."""
        self.back_us = 0
        self.away_until_s = 0.0
        self.calls = 0
        self.failure: BaseException | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self._last: dict[str, bytes] = {}
        """Stream that somebody waits at → its last entry."""
        self._waiting: dict[asyncio.Event, tuple[str, ...]] = {}
        self._ends: dict[tuple[str, str], int] = {}
        """Kind and name of a key with a short life → when it ends. Redis' own clock is not ours."""

    @property
    def now_us(self) -> int:
        """The store's clock, which may go back."""
        return now_us() - self.back_us

    @property
    def unreachable(self) -> bool:
        return asyncio.get_running_loop().time() < self.away_until_s

    def chance(self) -> float:
        return self.rng.random() if self.faulty else 1.0

    async def later(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self.rng.uniform(least_s, most_s))

    def execute(self, commands: Sequence[Command]) -> list[Any]:
        """At one instant, on the real store. What does not hold is noted as the world's failure."""
        self.ledger.counts["exchanges"] += 1
        try:
            self._expire()
            results = [self._run(command) for command in commands]
            if any((call := call_of(command)) is not None and call.name not in QUIET for command in commands):
                self.check()
            self._wake()
        except AssertionError as found:
            self.fail(found)
            raise
        return results

    def fail(self, found: BaseException) -> None:
        self.failure = self.failure or found
        self.on_failure()

    def _run(self, command: Command) -> Any:
        call = call_of(command)
        if call is None:
            return self._send(command)
        if command[4] == 0:
            # It is to go by the store's clock. What takes no instant (``told``) has something else there.
            command = (*command[:4], self.now_us, *command[5:])
        before = [(job, fence, self._fence(job)) for job, fence in owned(call)]
        wanted = asked.get() if call.name == "pull" else None
        found = self.look(closely=True) if wanted is not None else None
        result = self._send(command)
        self._taken(call, before, result)
        if call.name in REPEATED and self.chance() < 0.05:
            result = self._again(call, command, result)
        self._note(call, result)
        if found is not None and wanted is not None:
            pulls.check_pull(found, replace(wanted, now_us=self.now_us), [fields[0].decode() for fields in result[0]])
        return result

    def _send(self, command: Command) -> Any:
        (result,) = self.server.ask([command])
        return result

    def _again(self, call: Call, command: Command, first: Any) -> Any:
        """P10."""
        before = dump(self.server)
        second = self._send(command)
        after = dump(self.server)
        changed = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
        if changed:
            raise Violation(f"P10: {call.name} run again ({first!r}, then {second!r}) changed {changed}")
        self.ledger.counts["repeated"] += 1
        return self.rng.choice((first, second))

    def _fence(self, job: str) -> int | None:
        (fence,) = self.server.ask([("HGET", self.keys.job(job), "fence")])
        return None if fence is None else int(fence)

    def _taken(self, call: Call, before: Sequence[tuple[str, int, int | None]], result: Any) -> None:
        """P3: what was taken, was taken under the job's one fence."""
        if isinstance(result, Exception):
            raise Violation(f"P3: {call.name} was refused by the server: {result}")
        results = result if call.name in ("append", "renew") else [result] if before else []
        for (job, fence, current), one in zip(before, results, strict=True):
            word = one[0] if isinstance(one, list) else one
            if isinstance(word, bytes) and word in (b"lost", b"orphan", b"gone", b"done", b"adopt"):
                continue
            if call.name == "append" and current != fence:
                raise Violation(f"P3: an append to {job} was taken under fence {fence}, the job is at {current}")
            if current != fence:
                raise Violation(f"P3: {call.name} ({word!r}) of {job} was taken under {fence}, the job is at {current}")

    def _note(self, call: Call, result: Any) -> None:
        """Lifetimes that begin anew."""
        if call.name == "create" or (call.name == "watch" and result[0] == 1):
            self._ends_after("inbox", str(call.args[1]), INBOX_S)
        elif call.name == "renew":
            self._ends_after("ctl", str(call.args[1]), CTL_S)
        elif call.name == "submit" and result[0] in (b"new", b"restored"):
            for kind in ("job", "reply"):
                self._ends.pop((kind, str(call.args[1])), None)

    def check(self) -> None:
        """P3 and P5, and what has ended."""
        self.calls += 1
        state = self.look()
        checks.check_state(state, self.ledger)
        for job in state.jobs.values():
            if job.st == "done" and ("job", job.id) not in self._ends:
                self._ends_after("job", job.id, DONE_JOB_S)
                self._ends_after("reply", job.id, DONE_JOB_S if job.det else DONE_REPLY_S)
        if self.calls % LOOK_FOR_LIFETIMES == 0:
            checks.check_lifetimes(self.server, self.keys)

    def look(self, *, closely: bool = False) -> State:
        """Of the jobs that were not seen to be done."""
        ids = [one for one in self.ledger.clients if ("job", one) not in self._ends]
        return look(self.server, self.keys, ids, self.names.queues, self.names.backends, closely=closely)

    def _ends_after(self, kind: str, name: str, seconds: int) -> None:
        """A key's lifetime in virtual time. In real time it is to be there as long as the test runs."""
        self._ends[kind, name] = now_us() + seconds * SECOND
        self.server.ask([("EXPIRE", getattr(self.keys, kind)(name), 36_000)])

    def _expire(self) -> None:
        now = now_us()
        for kind, name in [one for one, at in self._ends.items() if at < now]:
            self.server.ask([("DEL", getattr(self.keys, kind)(name))])
            if kind == "job":
                self._ends[kind, name] = now + 10**12
            else:
                del self._ends[kind, name]

    # --- readers that wait

    async def news(self, streams: Iterable[str], until_s: float) -> None:
        """Returns when one of the streams has changed, or at ``until_s``, or when the store goes away."""
        event = asyncio.Event()
        self._waiting[event] = tuple(streams)
        try:
            async with asyncio.timeout_at(until_s):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            del self._waiting[event]

    def _wake(self) -> None:
        keys = sorted({key for streams in self._waiting.values() for key in streams})
        if not keys:
            return
        lasts = self.server.ask([("XREVRANGE", key, "+", "-", "COUNT", 1) for key in keys])
        now = {key: (last[0][0] if last else b"") for key, last in zip(keys, lasts, strict=True)}
        changed = {key for key, last in now.items() if self._last.get(key, b"") != last}
        self._last.update(now)
        for event, streams in self._waiting.items():
            if changed.intersection(streams):
                event.set()

    # --- what becomes of the store itself

    def away(self, seconds: float) -> None:
        """Nobody reaches it for so long; whoever waits at it is cut off."""
        self.away_until_s = max(self.away_until_s, asyncio.get_running_loop().time() + seconds)
        for event in self._waiting:
            event.set()

    def snapshot(self) -> None:
        self.snapshots.take(now_us(), self._ends)

    def empty(self) -> None:
        """It came back, and had kept nothing."""
        self.server.empty()
        self.snapshots.forget()
        self._forget({})

    def roll_back(self, age_s: float) -> None:
        """It came back as it had been up to so long ago."""
        snapshot = self.snapshots.some(round(age_s * SECOND))
        if snapshot is not None:
            self.snapshots.back_to(snapshot)
            self._forget(snapshot.ends)

    def _forget(self, ends: dict[tuple[str, str], int]) -> None:
        self._ends, self._last = dict(ends), {}
        self.ledger.forget()
