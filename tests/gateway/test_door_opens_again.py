"""A door that was shut by one long gap."""

from gateway.refusal import Refusal
from policy.outlook import NOTHING
from tests.gateway.test_admission import admission, job, queue_up


def test_after_one_long_gap_it_does_not_refuse_for_ever() -> None:
    it, clock, _ = admission(refuse_wait_seconds=8.0)
    queue_up(it, clock, 0.2, left=1)
    clock.now_at += 60.0
    it.began("normal6")
    let_in, k = [], 0
    for _ in range(40):
        clock.now_at += 3.0
        for _ in range(3):
            try:
                it.check([(job(f"x{k}"), NOTHING)])
            except Refusal:
                continue
            it.came(job(f"x{k}"), NOTHING)
            let_in.append(k)
            k += 1
        for number in let_in:
            it.began(f"x{number}")
    assert len(let_in) > 90, "three each time once it is known better"
