"""The rule by which spares are started and stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policy.spares import AGAIN_S, CLOSING_S, GROWN_UP_S, SILENT_S, STOPPING_S, Queue, Seen, Stand, Terms, needed, step

TERMS = Terms(start_above_s=30.0, idle_stop_s=100.0, start_timeout_s=60.0, own_process=True)
LENT = replace(TERMS, own_process=False)
NOBODY = Queue(waiting=0, oldest_s=0.0, places=0, job_s=0.0)
ONE = Queue(waiting=1, oldest_s=0.0, places=0, job_s=0.0)
QUIET = Seen(up=False, work=0, queues=[NOBODY])
ASKED = replace(QUIET, queues=[ONE])
UP = Seen(up=True, work=0, queues=[NOBODY], here=True)


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        (NOBODY, False),
        (ONE, True),
        (Queue(waiting=1, oldest_s=0.0, places=1, job_s=10.0), False),
        (Queue(waiting=2, oldest_s=0.0, places=1, job_s=10.0), False),
        (Queue(waiting=3, oldest_s=0.0, places=1, job_s=10.0), True),
        (Queue(waiting=3, oldest_s=0.0, places=4, job_s=10.0), False),
        (Queue(waiting=1, oldest_s=31.0, places=4, job_s=1.0), True),
        (Queue(waiting=0, oldest_s=0.0, places=1, job_s=100.0), False),
    ],
)
def test_it_is_needed_where_nobody_else_serves_or_the_wait_is_long(queue: Queue, expected: bool) -> None:
    assert needed(replace(QUIET, queues=[NOBODY, queue]), TERMS) is expected


def test_no_two_of_one_model_are_started_together() -> None:
    assert not needed(replace(ASKED, others_first=True), TERMS)


def test_it_is_started_once() -> None:
    stand, deed = step(Stand(), ASKED, TERMS, 1000.0)
    assert (stand.phase, deed) == ("starting", "start")
    stand, deed = step(stand, replace(ASKED, acting=True), TERMS, 1001.0)
    assert (stand.phase, deed) == ("starting", None)
    stand, deed = step(stand, replace(ASKED, here=True), TERMS, 1002.0)
    assert (stand.phase, deed) == ("starting", None)
    stand, deed = step(stand, replace(ASKED, here=True, up=True), TERMS, 1003.0)
    assert (stand.phase, deed) == ("up", None)


def test_nobody_waits_so_nothing_happens() -> None:
    assert step(Stand(), QUIET, TERMS, 1000.0) == (Stand(), None)


def test_it_is_not_started_while_it_is_still_being_stopped() -> None:
    assert step(Stand(), replace(ASKED, acting=True), TERMS, 1000.0)[1] is None


@pytest.mark.parametrize("tries", range(6))
def test_a_start_that_fails_is_tried_again_later_and_later(tries: int) -> None:
    stand = Stand(phase="starting", since_at=990.0, tries=tries)
    stand, deed = step(stand, replace(ASKED, failure="It is broken."), TERMS, 1000.0)
    assert (stand.phase, stand.error, stand.tries, deed) == ("failed", "It is broken.", tries + 1, "stop")
    pause_s = AGAIN_S[min(tries, 3)]
    assert step(stand, ASKED, TERMS, 999.0 + pause_s) == (replace(stand, busy_at=999.0 + pause_s), None)
    again, deed = step(stand, ASKED, TERMS, 1000.0 + pause_s)
    assert (again.phase, again.tries, deed) == ("starting", tries + 1, "start")


def test_after_the_pause_it_may_be_asked_for_again() -> None:
    """The door turns nobody away any more, else nobody would ever wait for it."""
    stand = Stand(phase="failed", tries=1, again_at=1000.0)
    assert step(stand, QUIET, TERMS, 1000.0)[0].phase == "stopped"


def test_one_that_does_not_answer_in_time_is_stopped() -> None:
    stand = Stand(phase="starting", since_at=1000.0)
    seen = replace(ASKED, here=True)
    assert step(stand, seen, TERMS, 1060.0)[1] is None
    stand, deed = step(stand, seen, TERMS, 1061.0)
    assert (stand.phase, deed) == ("failed", "stop")
    assert "60 s" in stand.error


def test_the_start_of_a_worker_that_died_is_made_anew() -> None:
    stand, deed = step(Stand(phase="starting", since_at=999.0), ASKED, TERMS, 1000.0)
    assert (stand.phase, deed) == ("stopped", None)
    assert step(stand, ASKED, TERMS, 1001.0)[1] == "start"


def test_one_that_is_under_way_is_not_started_again_if_the_store_forgets_it() -> None:
    stand, deed = step(Stand(), replace(ASKED, here=True), TERMS, 1000.0)
    assert (stand.phase, deed) == ("starting", None)
    assert step(Stand(), replace(ASKED, here=True, acting=True), TERMS, 1000.0)[0].phase == "stopped"


def test_one_that_belongs_to_no_worker_goes_on_starting() -> None:
    stand = Stand(phase="starting", since_at=999.0)
    assert step(stand, ASKED, LENT, 1000.0) == (replace(stand, busy_at=1000.0), None)


def test_an_idle_one_is_closed_then_stopped() -> None:
    stand = Stand(phase="up", since_at=0.0, busy_at=1000.0)
    assert step(stand, UP, TERMS, 1100.0)[0].phase == "up"
    stand, deed = step(stand, UP, TERMS, 1101.0)
    assert (stand.phase, deed) == ("closing", None)
    assert step(stand, UP, TERMS, 1101.0 + CLOSING_S - 0.1)[1] is None
    stand, deed = step(stand, UP, TERMS, 1101.0 + CLOSING_S)
    assert (stand.phase, deed) == ("stopping", "stop")
    stand, deed = step(stand, replace(QUIET, acting=True), TERMS, 1105.0)
    assert (stand.phase, deed) == ("stopping", None)
    stand, deed = step(stand, QUIET, TERMS, 1106.0)
    assert (stand.phase, deed) == ("stopped", None)


@pytest.mark.parametrize("seen", [replace(UP, work=1), replace(UP, queues=[NOBODY, ONE])])
def test_it_is_not_stopped_while_it_has_work_or_is_waited_for(seen: Seen) -> None:
    assert step(Stand(phase="up", busy_at=0.0), seen, TERMS, 1000.0)[0].phase == "up"
    stand, deed = step(Stand(phase="closing", since_at=0.0), seen, TERMS, 1000.0)
    assert (stand.phase, stand.busy_at, deed) == ("up", 1000.0, None)


def test_nobody_closes_what_he_could_not_stop() -> None:
    assert step(Stand(phase="up"), replace(UP, here=False), TERMS, 1000.0)[0].phase == "up"
    assert step(Stand(phase="up"), replace(UP, here=False), LENT, 1000.0)[0].phase == "closing"


def test_one_that_ends_soon_after_its_start_counts_as_a_start_that_failed() -> None:
    seen = replace(QUIET, failure="It ended.")
    stand, deed = step(Stand(phase="up", since_at=999.0, seen_at=999.0), seen, TERMS, 1000.0)
    assert (stand.phase, stand.tries, stand.error, deed) == ("failed", 1, "It ended.", None)


def test_one_that_ends_after_a_while_may_be_started_at_once() -> None:
    seen = replace(ASKED, failure="It ended.")
    stand, _ = step(Stand(phase="up", since_at=0.0, tries=2, seen_at=999.0), seen, TERMS, 1000.0)
    assert (stand.phase, stand.tries, stand.error) == ("stopped", 0, "It ended.")
    assert step(stand, seen, TERMS, 1001.0)[1] == "start"


def test_the_one_of_a_worker_that_died_is_no_failure() -> None:
    assert step(Stand(phase="up", since_at=999.0), QUIET, TERMS, 1000.0)[0].phase == "stopped"


def test_a_look_that_fails_is_no_end() -> None:
    stand = Stand(phase="up", since_at=0.0, seen_at=1000.0)
    seen = replace(QUIET, here=True)
    assert step(stand, seen, TERMS, 1000.0 + SILENT_S) == (stand, None)
    stand, deed = step(stand, seen, TERMS, 1001.0 + SILENT_S)
    assert (stand.phase, deed) == ("stopped", "stop")


def test_one_that_runs_well_is_forgiven() -> None:
    stand = Stand(phase="up", since_at=1000.0, busy_at=1000.0, tries=3, error="It was broken.")
    assert step(stand, UP, TERMS, 1000.0 + GROWN_UP_S)[0].tries == 3
    stand = step(stand, UP, TERMS, 1001.0 + GROWN_UP_S)[0]
    assert (stand.tries, stand.error) == (0, "")


def test_one_that_cannot_be_stopped_runs_on() -> None:
    stand = Stand(phase="stopping", since_at=1000.0)
    assert step(stand, UP, LENT, 1001.0) == (replace(stand, seen_at=1001.0), None)
    found, _ = step(stand, replace(UP, failure="It may not."), LENT, 1001.0)
    assert (found.phase, found.error, found.busy_at) == ("up", "It may not.", 1001.0)
    assert step(stand, UP, LENT, 1001.0 + STOPPING_S)[0].phase == "up"


def test_one_that_was_started_by_hand_counts_as_up() -> None:
    stand, deed = step(Stand(), UP, TERMS, 1000.0)
    assert (stand.phase, stand.busy_at, deed) == ("up", 1000.0, None)
