"""Who is refused at the door for the time that he would wait, and that what he is told is true."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections import deque
from typing import Any

import pytest

from buffer.job import Lane
from buffer.records import NewJob
from buffer.settings import Settings
from buffer.telemetry import Telemetry
from gateway.admission import MOST_QUEUES, Admission
from gateway.refusal import Refusal
from policy.outlook import NOTHING, Outlook
from tests.gateway.one_place import one_place
from tests.gateway.rig import until


class Clock:
    now_at = 0.0

    def __call__(self) -> float:
        return self.now_at


def admission(**settings: Any) -> tuple[Admission, Clock, Telemetry]:
    clock, telemetry = Clock(), Telemetry()
    return Admission(Settings(**settings), telemetry, clock), clock, telemetry


def job(id: str = "", lane: Lane = "normal", model: str = "m") -> NewJob:
    return NewJob(id=id or secrets.token_hex(4), model=model, lane=lane, user="u", inbox="i", body=b"")


def queue_up(it: Admission, clock: Clock, gap_s: float, left: int = 5) -> None:
    """Six have started, so far apart, and ``left`` wait."""
    for k in range(6 + left):
        it.came(job(f"normal{k}"), NOTHING)
    for k in range(6):
        clock.now_at += gap_s
        it.began(f"normal{k}")


def test_who_would_wait_too_long_is_refused_and_told_when_to_come_back() -> None:
    it, clock, telemetry = admission(refuse_wait_seconds={"normal": 55.0})
    it.check([(job(), NOTHING)])
    queue_up(it, clock, 10.0)
    with pytest.raises(Refusal) as refused:
        it.check([(job(), NOTHING)])
    failure = refused.value.failure
    assert (failure.status, failure.code, refused.value.outcome) == (503, "wait_too_long", "refused")
    assert failure.retry_after_s == 10, "a place becomes free with the next start"
    for other in (job(lane="slow"), job(lane="background"), job(model="other")):
        it.check([(other, NOTHING)])
    clock.now_at += 10.0
    it.began("normal6")
    it.check([(job(), NOTHING)])
    with pytest.raises(Refusal):
        it.check([(job(), NOTHING), (job(), NOTHING)])
    assert 'estimate_ratio_count{kind="wait_seconds"} 7.0' in telemetry.exposition(None).decode()


def test_those_who_were_refused_do_not_come_back_all_at_once() -> None:
    it, clock, _ = admission(refuse_wait_seconds=55.0)
    queue_up(it, clock, 10.0)
    told: list[int | None] = []
    for _ in range(30):
        with pytest.raises(Refusal) as refused:
            it.check([(job(), NOTHING)])
        told.append(refused.value.failure.retry_after_s)
    assert told == [min(120, 10 * k) for k in range(1, 31)]


def test_those_that_leave_count_no_more() -> None:
    it, clock, _ = admission(refuse_wait_seconds=55.0)
    queue_up(it, clock, 10.0)
    it.left("normal10")
    it.left("normal10")
    it.left("normal0")
    it.left("nobody")
    it.check([(job(), NOTHING)])
    for k in range(6, 10):
        it.left(f"normal{k}")
    clock.now_at += 3_600
    it.check([(job(), NOTHING)])


def test_nobody_is_refused_by_what_nobody_has_seen() -> None:
    it, clock, _ = admission(refuse_wait_seconds=1.0)
    for k in range(50):
        it.came(job(f"j{k}"), NOTHING)
    clock.now_at += 3_600
    it.check([(job(), NOTHING)])
    with pytest.raises(Refusal):
        it.check([(job(), Outlook(alone_s=30.0))])


def test_what_holds_up_all_of_them_is_waited_for_once() -> None:
    it, clock, _ = admission(refuse_wait_seconds=60.0)
    queue_up(it, clock, 1.0, left=20)
    clock.now_at += 15.0
    it.check([(job(), NOTHING)])


def test_the_start_is_estimated_by_the_part_of_the_queue_that_is_ours() -> None:
    it, clock, _ = admission()
    assert it.starts_in_s("m", 3) is None
    queue_up(it, clock, 10.0)
    assert it.starts_in_s("m", 4) == pytest.approx(50.0)
    for _ in range(40):
        it.waits(10)
    assert it.starts_in_s("m", 9) == pytest.approx(50.0)
    assert it.starts_in_s("other", 9) is None


def test_models_come_and_go_without_end() -> None:
    it, _, _ = admission()
    for k in range(3 * MOST_QUEUES):
        it.came(job(str(k), model=f"m{k}"), NOTHING)
        it.began(str(k))
    assert len(it._drains) <= MOST_QUEUES
    assert not it.waiting
    assert all(one.begun for one in it._jobs.values())


@pytest.mark.parametrize("gateways", [1, 2, 5])
def test_gateways_that_share_a_queue_let_in_what_can_be_served(gateways: int) -> None:
    """A third more comes than one engine answers, in a second each, to gateways by chance; nobody is to wait longer
    than twenty."""
    clock, source = Clock(), random.Random(gateways)
    doors = [Admission(Settings(refuse_wait_seconds=20.0), Telemetry(), clock) for _ in range(gateways)]
    queue: deque[tuple[str, Admission, float]] = deque()
    waits: list[float] = []
    free_at, refused = 0.0, 0
    for number in range(3_000):
        comes_at = clock.now_at + source.expovariate(4 / 3)
        while queue and free_at <= comes_at:
            id, door, came_at = queue.popleft()
            clock.now_at = max(free_at, came_at)
            door.began(id)
            waits.append(clock.now_at - came_at)
            free_at = clock.now_at + 1.0
        clock.now_at = comes_at
        door = source.choice(doors)
        try:
            door.check([(job(), NOTHING)])
        except Refusal:
            refused += 1
        else:
            door.came(job(str(number)), NOTHING)
            queue.append((str(number), door, comes_at))
    assert max(waits) < 28.0
    assert sum(waits) / len(waits) > 5.0
    assert 0.2 < refused / 3_000 < 0.32, "a quarter is too many"
    assert len(waits) > 0.98 * clock.now_at, "it never ran dry"


async def test_who_comes_back_when_told_finds_room() -> None:
    """Twenty-two at once, where each takes 0.2 s, and more than two seconds' wait is too long."""
    async with one_place(1.0, refuse_wait_seconds={"fast": 2.0}) as place:
        waited: list[float] = []
        told: list[int] = []
        came_back: list[bool] = []

        async def comes(k: int) -> None:
            asked_at = time.monotonic()
            got = await place.ask(f"Question {k}", 8)
            if got.status_code == 503:
                assert got.json()["error"]["code"] == "wait_too_long"
                told.append(int(got.headers["retry-after"]))
                await asyncio.sleep(told[-1])
                came_back.append((await place.ask(f"Question {k}", 8)).status_code == 200)
            else:
                assert got.status_code == 200
                waited.append(time.monotonic() - asked_at)

        assert {got.status_code for got in await asyncio.gather(*(place.ask(f"Warm {k}", 8) for k in range(6)))} == {
            200
        }
        await asyncio.gather(*(comes(k) for k in range(22)))
        assert len(came_back) >= 5
        assert min(told) <= 2, "the first of them come back as soon as there may be room"
        assert sum(came_back) > 0.8 * len(came_back)
        assert max(waited) < 4.0
        answered = 6 + len(waited) + sum(came_back)
        refused = len(came_back) + came_back.count(False)
        outcome = 'doublebuffer_requests_total{api="openai",lane="fast",outcome="%s"}'
        assert (place.metric(outcome % "ok"), place.metric(outcome % "refused")) == (answered, refused)
        assert place.metric('doublebuffer_attempts_total{backend="sim",result="ok"}') == answered, "none was submitted"


async def test_background_work_and_what_joins_is_never_refused() -> None:
    async with one_place(0.1, refuse_wait_seconds=0.05) as place, asyncio.TaskGroup() as group:
        key, quiet = {"Idempotency-Key": "a-key"}, {"X-Doublebuffer-Lane": "background"}
        assert {got.status_code for got in await asyncio.gather(*(place.ask(f"Warm {k}") for k in range(4)))} == {200}
        group.create_task(place.ask("long", 1_000))
        asked = group.create_task(place.ask("the same", headers=key))

        async def waits() -> bool:
            return (await place.lanes.depths())["fast"].waiting == 1

        await until(waits)
        assert (await place.ask("one more")).status_code == 503
        asks = [asked, *(group.create_task(place.ask(text, headers=key)) for text in ("the same", "the same"))]
        asks.append(group.create_task(place.ask("later", headers=quiet)))
        await asyncio.wait(asks)
        assert [task.result().status_code for task in asks] == [200] * 4
