"""Dead letters: what they tell, and which of their jobs can be tried again."""

from __future__ import annotations

from buffer.job import End, Failure
from buffer.lanes import Lanes
from buffer.letters import Letters, letter_pools
from buffer.past import Past
from buffer.records import GivenBack
from tests.buffer.jobs import INBOX, LEASE_S, clocked, ids, is_quiet, job, kinds, pull, record, running

FAILED = End("failed", Failure("It broke."))
LAST = GivenBack("error", max_attempts=1, failure=FAILED)


async def dies(lanes: Lanes, id: str = "a", *, det: bool = False) -> None:
    """Its only attempt fails."""
    granted = await running(lanes, id, det=det)
    assert await lanes.release(id, granted.fence, 1, LAST) == "ended"


async def test_a_dead_letter_tells_whose_it_was_and_why(lanes: Lanes) -> None:
    clock = clocked(lanes)
    await dies(lanes)
    (letter,) = await Letters(lanes.store, "default").all()
    assert (letter.id, letter.pool, letter.model, letter.lane, letter.user) == ("a", "default", "m", "fast", "u")
    assert (letter.reason, letter.at_us) == ("attempts used up", clock.now)


async def models_of(lanes: Lanes) -> list[str]:
    return [letter.model for letter in await Letters(lanes.store, "default").all()]


async def test_a_dead_letter_names_the_model_as_model_lists_do(lanes: Lanes) -> None:
    clock = clocked(lanes)
    granted = await running(lanes, "a", name="M:latest")
    assert await lanes.release("a", granted.fence, 1, LAST) == "ended"
    granted = await running(lanes, "b", name="M:latest", det=True)
    await lanes.settle("b", granted.fence, 1, FAILED, dead="could not be read")
    await running(lanes, "c", name="M:latest", det=True)
    for _ in range(75):
        clock.forward(1)
        await lanes.reap(LEASE_S)
        await pull(lanes)
    assert await models_of(lanes) == ["M:latest"] * 3


async def test_so_does_that_of_a_job_that_was_restored(lanes: Lanes) -> None:
    granted = await running(lanes, "a")
    await lanes.store.redis.delete(lanes.keys.job("a"))
    past = Past(job=job("a", name="M:latest"), age_us=0, floor=granted.fence, waiting=False)
    (restored,) = await lanes.restore([past], LEASE_S)
    assert await lanes.release("a", restored.fence, 1, LAST) == "ended"
    assert await models_of(lanes) == ["M:latest"]


async def test_where_the_record_is_gone_it_names_the_queue(lanes: Lanes) -> None:
    clock = clocked(lanes)
    await running(lanes, "a", name="M:latest")
    await lanes.store.redis.delete(lanes.keys.job("a"))
    for _ in range(25):
        clock.forward(1)
        await lanes.reap(LEASE_S)
    assert await models_of(lanes) == ["m"]


async def test_pools_are_found_whether_they_are_configured_or_not(lanes: Lanes) -> None:
    other = Lanes(lanes.store, "gpu:2/embed")
    await dies(other)
    assert await letter_pools(lanes.store, ["default"]) == ["default", "default/embed", "gpu:2/embed"]
    assert await Letters(lanes.store, "default/embed").all() == []
    (letter,) = await Letters(lanes.store, "gpu:2/embed").all()
    assert letter.pool == "gpu:2/embed"


async def test_what_a_chat_asked_is_gone_with_its_end(lanes: Lanes) -> None:
    await dies(lanes)
    letters = Letters(lanes.store, "default")
    before = await record(lanes, "a")
    assert not await letters.has_body("a")
    assert await letters.retry("a") == "without body"
    assert await record(lanes, "a") == before
    assert await is_quiet(lanes)


async def test_a_detached_job_is_tried_again_from_its_beginning(lanes: Lanes) -> None:
    clock = clocked(lanes)
    await dies(lanes, det=True)
    letters = Letters(lanes.store, "default")
    assert await letters.has_body("a")
    clock.forward(300)
    letters.clock = clock
    assert await letters.retry("a") == "queued"
    assert await letters.retry("a") == "open"
    assert await kinds(lanes, "a") == [("0-1", "queued")]
    # Whoever followed it has been told its end: the new words are none of its business.
    assert (await record(lanes, "a"))["inbox"] == ""
    (granted,) = (await pull(lanes)).jobs
    assert (granted.id, granted.fails, granted.taken, granted.prefix) == ("a", 0, 0, "")
    assert granted.deadline_us == clock.now + 120_000_000
    assert await letters.retry("a") == "open"
    assert await lanes.settle("a", granted.fence, 1, End("done")) == "ok"
    assert not await letters.has_body("a")
    assert await is_quiet(lanes)


async def test_a_detached_job_that_was_taken_over_too_often_is_kept_too(lanes: Lanes) -> None:
    clock = clocked(lanes)
    await running(lanes, det=True)
    for _ in range(3):
        for _ in range(25):
            clock.forward(1)
            await lanes.reap(LEASE_S)
        await pull(lanes)
    (letter,) = await Letters(lanes.store, "default").all()
    assert letter.reason == "taken over three times"
    assert await Letters(lanes.store, "default").retry("a") == "queued"
    assert await ids(lanes) == ["a"]


async def test_the_end_of_a_job_that_was_answered_leaves_nothing_to_try_again(lanes: Lanes) -> None:
    granted = await running(lanes, det=True)
    await lanes.settle("a", granted.fence, 1, End("done"))
    letters = Letters(lanes.store, "default")
    assert await letters.retry("a") == "without body"
    assert await letters.retry("b") == "gone"
    await lanes.submit(job("c", det=True, inbox=INBOX))
    assert await letters.retry("c") == "open"


async def test_dead_letters_are_dropped(lanes: Lanes) -> None:
    for id in "abc":
        await dies(lanes, id)
    letters = Letters(lanes.store, "default")
    first, second, third = await letters.all()
    assert await letters.drop([first, third]) == 2
    assert await letters.drop([first, third]) == 0
    assert await letters.drop([]) == 0
    assert await letters.all() == [second]
