"""The queues: whose turn it is in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policy.credit import Credit, Need
from policy.flight import Flight
from policy.lineup import Lineup, Waiting
from policy.pull import pull

W = 60.0
ROOM = Credit(slots=10_000)


def put(lineup: Lineup, name: str, at: float, lane: str, user: str = "u") -> Waiting:
    return lineup.submit(name, now_at=at, user=user, need=Need(lane), prefill_s=0.0, cost=100)


def order(lineup: Lineup, want: int = 1000) -> list[str]:
    pulled = pull(lineup, want=want, credit=ROOM, flight=Flight(), now_at=0.0)
    return [job.id for job, _ in pulled.jobs]


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


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.floats(0, 1)), min_size=1, max_size=40))
def test_any_k_pulls_in_a_row_serve_k_users(arrivals: list[tuple[str, float]]) -> None:
    lineup = Lineup(W)
    now = 0.0
    for k, (user, gap) in enumerate(arrivals):
        now += gap / 10
        put(lineup, str(k), now, "fast", user=user)
    while len(lineup):
        users = {job.id: job.user for job in lineup}
        waiting = set(users.values())
        assert {users[id] for id in order(lineup, len(waiting))} == waiting


def test_a_user_who_was_forgotten_still_pays_for_a_long_answer() -> None:
    lineup = Lineup(W)
    first = put(lineup, "a0", 0.0, "fast", user="a")
    for name in ("b0", "b1", "b2"):
        put(lineup, name, 0.0, "fast", user="b")
    order(lineup, 3)
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


def test_whose_longest_wait_ends_first_is_told() -> None:
    lineup = Lineup(W)
    assert lineup.first_due([""]) is None
    put(lineup, "b", 5.0, "background")
    assert lineup.first_due([""]) is None
    put(lineup, "s", 9.0, "slow")
    first = put(lineup, "f", 7.0, "fast")
    assert lineup.first_due([""]) is first
    assert lineup.first_due(["another"]) is None
