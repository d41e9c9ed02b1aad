"""The rule of who goes next, under any order of events."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given, settings
from hypothesis import strategies as st

from policy.credit import Credit, Load, Need, fits, limits, load_of
from policy.lane import LANES
from policy.lineup import Flight, Lineup, Waiting

W = 60.0
ROOM = Credit(slots=10_000)


def put(lineup: Lineup, name: str, at: float, lane: str, user: str = "u") -> Waiting:
    return lineup.submit(name, now_at=at, user=user, need=Need(lane), prefill_s=0.0, cost=100)


def order(lineup: Lineup) -> list[str]:
    return [job.id for job in lineup.pull(want=1000, credit=ROOM, load=Load())]


def test_twelve_jobs_put_in_while_the_engine_was_full() -> None:
    lineup = Lineup(W)
    for k in range(4):
        for lane in ("slow", "fast", "thinking"):
            put(lineup, f"{lane}{k}", k * 0.1, lane, user=f"{lane}{k}")
    assert order(lineup) == [f"{lane}{k}" for lane in ("thinking", "fast", "slow") for k in range(4)]


def test_preference_is_bounded() -> None:
    lineup = Lineup(W)
    put(lineup, "slow", 0.0, "slow")
    put(lineup, "late", 59.9, "thinking", user="v")
    put(lineup, "later", 60.1, "thinking", user="w")
    assert order(lineup) == ["late", "slow", "later"]


def test_users_take_turns_within_a_lane() -> None:
    lineup = Lineup(W)
    for k in range(6):
        put(lineup, f"a{k}", 0.0, "fast", user="a")
    put(lineup, "b0", 1.0, "fast", user="b")
    assert order(lineup)[:2] == ["a0", "b0"]


def test_background_goes_only_where_no_chat_waits() -> None:
    lineup = Lineup(W)
    put(lineup, "title", 0.0, "background")
    put(lineup, "chat", 500.0, "slow")
    assert order(lineup) == ["chat", "title"]


def test_what_does_not_fit_holds_up_only_those_that_came_much_later() -> None:
    lineup = Lineup(W)
    credit, load = limits(8, kv_tokens=1000), load_of([Need("fast", 500)])
    lineup.submit("big", now_at=0.0, user="a", need=Need("slow", 900), prefill_s=0.0, cost=1)
    lineup.submit("small", now_at=59.0, user="b", need=Need("fast", 10), prefill_s=0.0, cost=1)
    lineup.submit("too late", now_at=61.0, user="c", need=Need("fast", 10), prefill_s=0.0, cost=1)
    assert [job.id for job in lineup.pull(want=8, credit=credit, load=load)] == ["small"]
    assert [job.id for job in lineup.pull(want=8, credit=credit, load=load)] == []
    assert [job.id for job in lineup.pull(want=8, credit=credit, load=Load())] == ["big", "too late"]


def test_a_full_back_end_holds_up_no_job_of_another_model() -> None:
    lineup = Lineup(W)
    lineup.submit("a", now_at=0.0, user="u", need=Need("fast"), prefill_s=0, cost=1, model="a")
    lineup.submit("b", now_at=5.0, user="u", need=Need("slow"), prefill_s=0, cost=1, model="b")
    assert [job.id for job in lineup.pull(want=9, credit=ROOM, load=Load(), models=["b"])] == ["b"]


Job = tuple[float, str, str, int, int, bool]
jobs = st.tuples(
    st.floats(0, 8),
    st.sampled_from(LANES),
    st.sampled_from("abc"),
    st.integers(1, 900),
    st.integers(0, 900),
    st.booleans(),
)


@settings(deadline=None)
@given(
    st.lists(st.tuples(jobs, st.integers(0, 3), st.integers(0, 3)), max_size=60), st.floats(1, 20), st.integers(1, 8)
)
def test_bounded_overtaking_and_limits(schedule: list[tuple[Job, int, int]], longest: float, slots: int) -> None:
    """Whatever comes and ends, no pull takes a job while a fitting one waits that came more than ``longest`` before
    it."""
    lineup, credit = Lineup(longest), limits(slots, kv_tokens=1000)
    load, now, ended = Load(), 0.0, 0
    running: list[Waiting] = []
    for k, (job, ends, want) in enumerate(schedule):
        gap, lane, user, kv, prefill, long = job
        now += gap
        lineup.submit(str(k), now_at=now, user=user, need=Need(lane, kv, prefill, long), prefill_s=gap, cost=kv)
        for done in running[:ends]:
            load.remove(done.need, prefill=done.need.prefill)
        ended += len(running[:ends])
        running = running[ends:]
        before = Load(load.jobs, load.kv, load.prefill, load.long)
        for taken in lineup.pull(want=want, credit=credit, load=load):
            for other in lineup:
                if other.due_at is not None and taken.lane != "background":
                    assert not (taken.arr_at > other.due_at and fits(other.need, before, credit))
            before.add(taken.need)
            running.append(taken)
    assert load == load_of(job.need for job in running)
    assert load.jobs <= slots
    for left in running:
        lineup.put_back(left)
    rest = order(lineup)
    assert len(rest) == len(set(rest)) == len(schedule) - ended


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.floats(0, 1)), min_size=1, max_size=40))
def test_any_k_pulls_in_a_row_serve_k_users(arrivals: list[tuple[str, float]]) -> None:
    lineup = Lineup(W)
    now = 0.0
    for k, (user, gap) in enumerate(arrivals):
        now += gap / 10
        lineup.submit(str(k), now_at=now, user=user, need=Need("fast"), prefill_s=0.0, cost=100)
    while len(lineup):
        waiting = {job.user for job in lineup}
        row = lineup.pull(want=len(waiting), credit=ROOM, load=Load())
        assert {job.user for job in row} == waiting


def test_a_user_who_was_forgotten_still_pays_for_a_long_answer() -> None:
    lineup = Lineup(W)
    first = put(lineup, "a0", 0.0, "fast", user="a")
    for name in ("b0", "b1", "b2"):
        put(lineup, name, 0.0, "fast", user="b")
    lineup.pull(want=3, credit=ROOM, load=Load())
    lineup.correct(first, 500)
    put(lineup, "a1", 0.0, "fast", user="a")
    assert order(lineup) == ["b2", "a1"]


def test_removing_one_leaves_no_trace() -> None:
    lineup = Lineup(W)
    put(lineup, "a", 0.0, "fast")
    put(lineup, "b", 1.0, "background")
    assert lineup.remove("a") is not None
    assert lineup.remove("a") is None
    lineup.correct(put(lineup, "c", 2.0, "fast"), 50)
    assert order(lineup) == ["c", "b"]
    assert len(lineup) == 0


def in_flight(jobs: list[Waiting]) -> Flight:
    def carried(lanes: Collection[str] = LANES, *, after: float = -1.0) -> Load:
        return load_of(job.need for job in jobs if job.lane in lanes and job.arr_at > after)

    return carried


def test_a_chat_goes_past_a_document_that_waits_for_anothers_end() -> None:
    credit = Credit(8, kv=1_000, kv_reserve=80, reserved_slots=1)
    lineup, running = Lineup(W), load_of([Need("slow", 600)])
    document = lineup.submit("d", now_at=0.0, user="d", need=Need("slow", 600), prefill_s=0.0, cost=1)
    chat = lineup.submit("c", now_at=100.0, user="c", need=Need("fast", 50), prefill_s=0.0, cost=1)
    assert lineup.pull(want=9, credit=credit, load=load_of([Need("slow", 600)])) == []
    assert lineup.pull(want=9, credit=credit, load=running, flight=in_flight([])) == [chat]
    running.remove(Need("slow", 600))
    assert lineup.pull(want=9, credit=credit, load=running, flight=in_flight([chat])) == [document]


def test_chats_go_before_those_who_waited_longer_only_while_they_are_few() -> None:
    credit = Credit(4)
    lineup, load = Lineup(W), Load()
    old = [put(lineup, f"o{k}", 0.0, "normal", user=f"o{k}") for k in range(4)]
    chats = [put(lineup, f"c{k}", 200.0, "fast", user=f"c{k}") for k in range(4)]
    going: list[Waiting] = []
    while taken := lineup.pull(want=1, credit=credit, load=load, flight=in_flight(going)):
        going += taken
    assert going == [*chats[:2], *old[:2]]


def test_what_a_job_needs_may_be_known_only_when_it_goes() -> None:
    lineup, load = Lineup(W), Load()
    put(lineup, "a", 0.0, "normal")
    lineup.pull(want=1, credit=ROOM, load=load, need_of=lambda job: Need(job.lane, kv=7, prefill=3))
    assert (load.jobs, load.kv, load.prefill) == (1, 7, 3)


def test_whose_turn_is_due_first_is_told() -> None:
    lineup = Lineup(W)
    assert lineup.oldest_at() is None
    put(lineup, "b", 5.0, "background")
    assert lineup.oldest_at() is None
    put(lineup, "s", 9.0, "slow")
    put(lineup, "f", 7.0, "fast")
    assert lineup.oldest_at() == 7.0
