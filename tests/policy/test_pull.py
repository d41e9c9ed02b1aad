"""The rule of who goes next, under any order of events."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from policy.credit import Credit, Load, Need, fits, limits
from policy.flight import Carried, Flight
from policy.lane import LANES
from policy.lineup import Lineup, Waiting
from policy.pull import LOOK_AT, LOOK_AT_LANE, Piece, Pulled, pull
from policy.segment import pause_s

W = 60.0
ROOM = Credit(slots=10_000)
PIECES = Credit(slots=10, segment=400, pause=0.1)


def put(
    lineup: Lineup, name: str, at: float, lane: str, *, kv: int = 0, prefill: int = 0, splits: bool = False
) -> Waiting:
    """Of a user of its own."""
    need, prompt = Need(lane, kv, prefill), prefill if splits else None
    return lineup.submit(name, now_at=at, user=name, need=need, prefill_s=0.0, cost=100, prompt=prompt)


def take(
    lineup: Lineup,
    credit: Credit,
    flight: Flight,
    *,
    want: int = 1000,
    at: float = 0.0,
    models: Sequence[str] = ("",),
) -> Pulled:
    return pull(lineup, want=want, credit=credit, flight=flight, now_at=at, models=models)


def names(pulled: Pulled) -> list[str]:
    return [job.id for job, _ in pulled.jobs]


def carrying(*needs: Need) -> Flight:
    return Flight(
        Carried(f"-{k}", need.lane, -1.0, 0.0, need.kv, need.long, need.prefill, need.prefill, 0)
        for k, need in enumerate(needs)
    )


def test_twelve_jobs_put_in_while_the_engine_was_full() -> None:
    lineup = Lineup(W)
    for k in range(4):
        for lane in ("slow", "fast", "thinking"):
            put(lineup, f"{lane}{k}", k * 0.1, lane)
    assert names(take(lineup, ROOM, Flight())) == [
        f"{lane}{k}" for lane in ("thinking", "fast", "slow") for k in range(4)
    ]


def test_preference_is_bounded() -> None:
    lineup = Lineup(W)
    put(lineup, "slow", 0.0, "slow")
    put(lineup, "late", 59.9, "thinking")
    put(lineup, "later", 60.1, "thinking")
    assert names(take(lineup, ROOM, Flight())) == ["late", "slow", "later"]


def test_who_waited_for_the_longest_wait_goes_before_whoever_came_later_however_many_they_are() -> None:
    lineup = Lineup(W)
    for k in range(3 * LOOK_AT_LANE):
        put(lineup, f"slow{k}", 0.0, "slow")
        put(lineup, f"late{k}", 60.1, "fast")
    assert names(take(lineup, ROOM, Flight()))[: 3 * LOOK_AT_LANE] == [f"slow{k}" for k in range(3 * LOOK_AT_LANE)]


def test_who_waited_and_does_not_fit_takes_not_all_looks() -> None:
    lineup = Lineup(W)
    for k in range(LOOK_AT):
        put(lineup, f"document{k}", 0.0, "slow", kv=600)
    put(lineup, "chat", 61.0, "fast", kv=10)
    assert names(take(lineup, Credit(32, kv=1_000), carrying(Need("slow", 600)))) == ["chat"]


def test_a_full_back_end_holds_up_no_job_of_another_model() -> None:
    lineup = Lineup(W)
    for name, lane in (("a", "fast"), ("b", "slow")):
        lineup.submit(name, now_at=0.0, user="u", need=Need(lane), prefill_s=0, cost=1, model=name)
    assert names(take(lineup, ROOM, Flight(), models=["b"])) == ["b"]


Job = tuple[float, str, str, int, int, bool, bool]
jobs = st.tuples(
    st.floats(0, 8),
    st.sampled_from(LANES),
    st.sampled_from("abc"),
    st.integers(1, 900),
    st.integers(0, 900),
    st.booleans(),
    st.booleans(),
)


@settings(deadline=None)
@given(
    st.lists(st.tuples(jobs, st.integers(0, 3), st.integers(0, 3)), max_size=60),
    st.floats(1, 20),
    st.integers(1, 8),
    st.sampled_from((0, 64, 256)),
)
def test_bounded_overtaking_and_limits(
    schedule: list[tuple[Job, int, int]], longest: float, slots: int, segment: int
) -> None:
    """Whatever comes and ends, no pull takes a job while one waits that came more than ``longest`` before and can go.
    But that one may have to leave its room to another, and of those that cannot go only some are looked at."""
    credit = limits(slots, kv_tokens=1000)._replace(segment=segment, pause=segment / 1000)
    lineup, flight, now, ended = Lineup(longest), Flight(), 0.0, 0
    running: list[Waiting] = []
    for k, (job, ends, want) in enumerate(schedule):
        gap, lane, user, kv, prefill, long, splits = job
        now += gap
        lineup.submit(
            str(k), now_at=now, user=user, need=Need(lane, kv, prefill, long), prefill_s=gap, cost=kv,
            prompt=prefill if splits else None,
        )  # fmt: skip
        for done in running[:ends]:
            flight.remove(done.id)
        ended += len(running[:ends])
        running = running[ends:]
        for half in running:
            flight.read(half.id, half.prompt)
        halves = any(flight.half_read())
        before = Load(flight.load.jobs, flight.load.kv, flight.load.prefill, flight.load.long)
        for taken, _ in take(lineup, credit, flight, want=want, at=now).jobs:
            out = [other for other in lineup if not _fits(other, before, credit)]
            reads = halves or before.prefill > 0
            unread = [other for other in lineup if other not in out and reads and other.need.prefill]
            for other in lineup:
                due_at = other.due_at
                if due_at is None or taken.arr_at <= due_at or other in out or other in unread:
                    continue
                barred = any(one.due_at is not None and one.due_at < other.arr_at for one in out)
                assert barred or len(out) + len(unread) >= LOOK_AT_LANE
            before.add(taken.need)
            running.append(taken)
    assert (flight.load.jobs, flight.load.kv) == (len(running), sum(job.need.kv for job in running))
    assert flight.load.jobs <= slots
    for left in running:
        lineup.put_back(left)
    rest: list[str] = []
    while len(lineup):
        rest += names(take(lineup, ROOM, Flight()))
    assert len(rest) == len(set(rest)) == len(schedule) - ended


def _fits(job: Waiting, load: Load, credit: Credit) -> bool:
    return fits(job.need._replace(prefill=0), load, credit)


def test_a_chat_goes_past_a_document_that_waits_for_anothers_end() -> None:
    credit = Credit(8, kv=1_000, kv_reserve=80, reserved_slots=1)
    lineup, flight = Lineup(W), carrying(Need("slow", 600))
    put(lineup, "document", 0.0, "slow", kv=600)
    put(lineup, "chat", 100.0, "fast", kv=50)
    assert names(take(lineup, credit, flight)) == ["chat"]
    put(lineup, "large", 101.0, "fast", kv=300)
    assert names(take(lineup, credit, flight)) == []
    flight.remove("-0")
    assert names(take(lineup, credit, flight)) == ["document", "large"]


def test_chats_go_before_those_who_waited_less_than_the_longest_wait_only_while_they_are_few() -> None:
    lineup, flight = Lineup(W), Flight()
    old = [put(lineup, f"o{k}", 0.0, "normal").id for k in range(4)]
    chats = [put(lineup, f"c{k}", 50.0, "fast").id for k in range(4)]
    assert names(take(lineup, Credit(4), flight)) == [*chats[:2], *old[:2]]


def test_a_place_is_kept_for_short_jobs_until_somebody_has_waited() -> None:
    credit = Credit(4, reserved_slots=1)
    for at, count in ((15.0, 3), (15.1, 4)):
        lineup = Lineup(W)
        for k in range(4):
            put(lineup, f"n{k}", 0.0, "normal")
        assert len(names(take(lineup, credit, Flight(), at=at))) == count


def read(flight: Flight, *pieces: Piece) -> None:
    for id, upto in pieces:
        flight.read(id, upto or 10**6)


def test_a_prompt_goes_in_pieces_and_two_are_under_way() -> None:
    lineup, flight = Lineup(W), Flight()
    job = put(lineup, "a", 0.0, "slow", prefill=1500, splits=True)
    pulled = take(lineup, PIECES, flight)
    assert (pulled.jobs, pulled.look_at) == ([(job, 400)], 0.1)
    early = take(lineup, PIECES, flight, at=0.05)
    assert (early.pieces, early.look_at) == ([], 0.1)
    assert take(lineup, PIECES, flight, want=0, at=0.1).pieces == [("a", 700)]
    assert take(lineup, PIECES, flight, at=0.2) == Pulled()
    read(flight, Piece("a", 400))
    assert take(lineup, PIECES, flight, at=0.3).pieces == [("a", 1000)]
    read(flight, Piece("a", 700), Piece("a", 1000))
    assert take(lineup, PIECES, flight, at=0.4).pieces == [("a", 1300)]
    assert take(lineup, PIECES, flight, at=0.5).pieces == [("a", 0)]
    assert take(lineup, PIECES, flight, at=0.6) == Pulled()


def test_one_prompt_of_a_lane_is_read_after_the_other_and_a_higher_lanes_goes_between() -> None:
    lineup, flight = Lineup(W), Flight()
    for name in "ab":
        put(lineup, name, 0.0, "slow", prefill=900, splits=True)
    assert names(take(lineup, PIECES, flight)) == ["a"]
    put(lineup, "n", 0.5, "normal", prefill=900, splits=True)
    put(lineup, "f", 0.5, "fast", prefill=5000)
    pulled = take(lineup, PIECES, flight, at=1.0)
    assert [(job.id, upto) for job, upto in pulled.jobs] == [("f", 0), ("n", 400)]
    read(flight, Piece("a", 400))
    assert (pulled.pieces, take(lineup, PIECES, flight, at=2.0)) == ([], Pulled(pieces=[Piece("n", 700)], look_at=2.1))


def test_half_read_prompts_take_their_turn_by_score() -> None:
    for lane, first in (("normal", "job"), ("slow", "piece")):
        lineup, flight = Lineup(W), Flight([Carried("half", "slow", 0.0, 40.0, 0, False, 900, 400, 400)])
        put(lineup, "job", 1.0, lane, prefill=600)
        pulled = take(lineup, PIECES, flight, at=1.0)
        assert ["job" if pulled.jobs else "piece", bool(pulled.pieces)] == [first, first == "piece"]


def test_without_a_bound_of_prefill_what_is_half_read_goes_on_whole() -> None:
    flight = Flight([Carried("half", "slow", 0.0, 40.0, 0, False, 900, 400, 400)])
    flight.take(Carried("other", "normal", 0.0, 40.0, 0, False, 900, 900, 0))
    assert take(Lineup(W), Credit(10), flight, at=1.0).pieces == [("half", 0)]


def test_the_pause_is_a_part_of_what_a_segment_takes() -> None:
    assert pause_s(400, 1000.0) == 0.1
