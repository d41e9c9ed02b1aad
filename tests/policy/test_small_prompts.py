"""Many small prompts, while a long one is read in pieces."""

from policy.credit import Credit, Need
from policy.flight import Carried, Flight
from policy.lineup import Lineup
from policy.pull import Pulled, pull

CREDIT = Credit(slots=10, segment=400, pause=0.1)


def test_one_after_the_other_they_do_not_hold_up_what_is_half_read() -> None:
    lineup, flight, sent = Lineup(60.0), Flight([Carried("half", "slow", 0.0, 40.0, 0, False, 9_000, 400, 400)]), 0

    def look(at: float) -> Pulled:
        return pull(lineup, want=8, credit=CREDIT, flight=flight, now_at=at, models=("",))

    for k in range(20):
        at, name = 1.0 + k * 0.05, f"t{k}"
        lineup.submit(name, now_at=at, user=name, need=Need("thinking", 0, 10), prefill_s=0.0, cost=100)
        look(at)
        pieces = look(at + 0.02).pieces
        sent += len(pieces)
        # Before the next comes, all of it has been read and that one answered.
        for piece in pieces:
            flight.read(piece.id, piece.upto)
        flight.remove(name)
    assert sent >= 8
