"""One store, and all that is checked of it: whatever any process does there goes through ``World.execute``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from buffer.access import Command
from buffer.keys import CTL_S, DONE_JOB_S, DONE_REPLY_S, INBOX_S, Keys
from tests.properties import checks, offers, pulls
from tests.properties.attending import Attendance
from tests.properties.calls import Call, asked, call_of, owned
from tests.properties.ends import SECOND, Ends
from tests.properties.ledger import Ledger, Violation
from tests.properties.readers import Readers
from tests.properties.server import Server
from tests.properties.snapshots import Snapshots
from tests.properties.state import State, dump, look
from tests.properties.virtual import now_us

LOOK_FOR_LIFETIMES = 100
QUIET = frozenset(("append", "prefilled", "create", "peek", "place", "depths", "signal", "stand"))
"""Scripts after which orders, leases and load are as they were."""
RINGS = frozenset(("submit", "offer", "stand", "renew"))
"""Scripts that may ring each time."""
REPEATED = (
    frozenset(("requeue", "cancel", "watch", "create", "append", "release", "settle", "prefilled", "recall")) | RINGS
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
        self.attendance = Attendance(server, rng)
        self.orders: dict[tuple[str, str], pulls.Asked] = {}
        """Worker, back end → its standing order."""
        self.faulty = False
        """Whether commands may be lost, late or sent twice."""
        self.back_us = 0
        self.away_until_s = 0.0
        self.calls = 0
        self.failure: BaseException | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self.readers = Readers(server)
        self._ends = Ends(server, self.keys.base)

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
            self._ends.expire()
            results = [self._run(command) for command in commands]
            if any((call := call_of(command)) is not None and call.name not in QUIET for command in commands):
                self.check()
            self.readers.wake()
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
        wanted = asked.get() if call.name in ("pull", "stand") else None
        found = self.look(closely=True) if call.name == "offer" or (wanted and call.name == "pull") else None
        result = self._send(command)
        self._taken(call, before, result)
        if found is not None and call.name == "offer":
            self._offered(call, found, result)
        if call.name in REPEATED and self.chance() < 0.05:
            result = self._again(call, command, result)
        self._note(call, result)
        if wanted is not None and call.name == "stand" and call.args[3]:
            self.orders[str(call.args[1]), str(call.args[2])] = wanted
        if found is not None and wanted is not None:
            pulls.check_pull(found, replace(wanted, now_us=self.now_us), [fields[0].decode() for fields in result[0]])
        return result

    def _send(self, command: Command) -> Any:
        (result,) = self.server.ask([command])
        return result

    def _again(self, call: Call, command: Command, first: Any) -> Any:
        """P10."""
        before, second, after = dump(self.server), self._send(command), dump(self.server)
        if call.name in RINGS:
            before.pop(self.keys.bell, None), after.pop(self.keys.bell, None)
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
            self._ends.after("inbox", str(call.args[1]), INBOX_S)
        elif call.name == "renew":
            self._ends.after("ctl", str(call.args[1]), CTL_S)
            self._stands(call)
        elif call.name == "stand":
            self._stands(call)
        elif call.name == "recall":
            self.ledger.counts["recalled"] += result[0]
        elif call.name in ("submit", "offer") and result[0] in (b"new", b"restored"):
            for kind in ("job", "reply"):
                self._ends.at.pop((kind, str(call.args[1])), None)

    def _offered(self, call: Call, found: State, result: Any) -> None:
        """P3, P4 and P7 of what went to a worker at once."""
        if result[0] != b"new" or result[2] != b"running":
            self.ledger.counts["offered in vain"] += result[0] == b"new"
            return
        self.ledger.counts["offers granted"] += 1
        job = self.look().jobs[str(call.args[1])]
        offers.check_offer(found, job, self.orders, self.now_us)
        ctl = self.keys.ctl(job.worker)
        if not self.attendance.hears(ctl):
            raise Violation(f"P9: {job.id} was granted to {job.worker}, which nobody can tell to live")
        offers.check_told(job, result, self._send(("XREVRANGE", ctl, "+", "-", "COUNT", 1)))

    def _stands(self, call: Call) -> None:
        """Standing orders hold for so long, in virtual time."""
        if call.args[3]:
            holds_s = round(int(call.args[3]) / 1e6)
            self._ends.after("orders", str(call.args[1]), holds_s)
            self._ends.after("standing", "", holds_s)

    def check(self) -> None:
        """P3 and P5, and what has ended."""
        self.calls += 1
        state = self.look()
        checks.check_state(state, self.ledger)
        for job in state.jobs.values():
            if job.st == "done" and ("job", job.id) not in self._ends.at:
                self._ends.after("job", job.id, DONE_JOB_S)
                self._ends.after("reply", job.id, DONE_JOB_S if job.det else DONE_REPLY_S)
        if self.calls % LOOK_FOR_LIFETIMES == 0:
            checks.check_lifetimes(self.server, self.keys)

    def look(self, *, closely: bool = False) -> State:
        """Of the jobs that were not seen to be done."""
        ids = [one for one in self.ledger.clients if ("job", one) not in self._ends.at]
        return look(self.server, self.keys, ids, self.names.queues, self.names.backends, closely=closely)

    # --- what becomes of the store itself

    def away(self, seconds: float) -> None:
        """Nobody reaches it for so long; whoever waits at it is cut off."""
        self.away_until_s = max(self.away_until_s, asyncio.get_running_loop().time() + seconds)
        self.attendance.cut_off()
        self.readers.cut_off()

    def snapshot(self) -> None:
        self.snapshots.take(now_us(), self._ends.at)

    def empty(self) -> None:
        """It came back, and had kept nothing."""
        self.server.empty()
        self.attendance.restart()
        self.snapshots.forget()
        self._forget({})

    def roll_back(self, age_s: float) -> None:
        """It came back as it had been up to so long ago."""
        snapshot = self.snapshots.some(round(age_s * SECOND))
        if snapshot is not None:
            self.snapshots.back_to(snapshot)
            self.attendance.restart()
            self._forget(snapshot.ends)

    def _forget(self, ends: dict[tuple[str, str], int]) -> None:
        self._ends.at = dict(ends)
        self.readers.forget()
        self.ledger.forget()
