from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from policy.inflight import FixedLimit, OverlapLimit, QueueLimit, SlotsLimit, in_flight_limit


def look(limit: QueueLimit | SlotsLimit | FixedLimit, **seen: int) -> int:
    limit.looked(slots=seen.get("slots"), waiting=seen.get("waiting"), running=seen.get("running"))
    return limit.limit(0.0)


def test_each_kind_has_its_rule() -> None:
    assert in_flight_limit("vllm").limit(0.0) == 32
    assert in_flight_limit("ollama").limit(0.0) == 1
    assert look(in_flight_limit("llamacpp"), slots=6) == 6  # type: ignore[arg-type]
    assert in_flight_limit("openai").limit(0.0) == 8
    assert look(in_flight_limit("ollama", 3), slots=9, waiting=5, running=1) == 3  # type: ignore[arg-type]


def test_a_lasting_queue_lowers_and_an_empty_one_raises() -> None:
    limit = QueueLimit()
    assert look(limit, waiting=6, running=26) == 32, "one look may have caught it taking a batch in"
    assert look(limit, waiting=6, running=26) == 26
    assert look(limit, waiting=0, running=26) == 32
    assert look(limit, waiting=40, running=10) == 32
    assert look(limit, waiting=40, running=10) == 10, "never below what runs"
    seen = [look(limit, waiting=0, running=10) for _ in range(8)]
    assert seen == sorted(seen)
    assert seen[-1] == 32


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 40))))
def test_the_cap_stays_between_one_and_the_ceiling(looks: list[tuple[int, int]]) -> None:
    limit = QueueLimit()
    for waiting, running in looks:
        assert 1 <= look(limit, waiting=waiting, running=running) <= 32
    for _ in range(20):
        look(limit, waiting=0, running=0)
    assert limit.limit(0.0) == 32


class Engine:
    """Runs ``parallel`` streams at once, 40 pieces each, in the order in which they came; a client that fills the
    cap."""

    def __init__(self, limit: OverlapLimit, parallel: int) -> None:
        self.limit, self.parallel = limit, parallel
        self.streams: dict[str, int] = {}
        self.names = itertools.count()
        self.now_at = 0.0
        self.most = 0

    def turn(self) -> None:
        self.now_at += 0.02
        while len(self.streams) < self.limit.limit(self.now_at):
            name = str(next(self.names))
            self.streams[name] = 40
            self.limit.started(name)
        self.most = max(self.most, len(self.streams))
        for name in list(self.streams)[: self.parallel]:
            self.streams[name] -= 1
            self.limit.flowed(name, self.now_at)
            if self.streams[name] == 0:
                del self.streams[name]
                self.limit.ended(name)


def test_overlap_raises_to_what_the_engine_runs_at_once() -> None:
    for parallel in (1, 2, 3, 4, 8):
        engine = Engine(limit := OverlapLimit(), parallel)
        for _ in range(3000):
            engine.turn()
        assert limit.jobs == min(4, parallel)
        assert engine.most <= min(4, parallel + 1), "one trial more than runs, and no further"


def test_a_failed_trial_is_not_repeated_at_once() -> None:
    engine = Engine(limit := OverlapLimit(), 1)
    trials = 0
    for _ in range(50 * 60 * 10):
        before = len(engine.streams)
        engine.turn()
        trials += len(engine.streams) > 1 >= before
    assert limit.jobs == 1
    assert trials <= 6, "in ten minutes under full load"


def test_the_cap_comes_down_when_streams_no_longer_overlap() -> None:
    engine = Engine(limit := OverlapLimit(), 4)
    for _ in range(500):
        engine.turn()
    assert limit.jobs == 4
    engine.parallel = 1
    for _ in range(4000):
        engine.turn()
    assert limit.jobs == 1


def test_another_worker_s_sight_is_taken_over() -> None:
    limit = OverlapLimit()
    limit.adopt(3, 0.0)
    assert limit.limit(0.0) == 3
    limit.adopt(9, 0.0)
    assert limit.limit(0.0) == 4
    limit.flowed("unknown", 1.0)
    limit.ended("unknown")
