"""Jobs that one back end failed and leaves to others: who may take them, and how long."""

from __future__ import annotations

from buffer.heard import Said, encode_said
from buffer.lanes import Lanes
from buffer.records import GivenBack, Limits
from tests.buffer.jobs import ids, is_quiet, job, pull, ready, record

LEFT = GivenBack("error", leave_s=2.0)
GPU = ["gpu"]


async def failed(lanes: Lanes, id: str, backend: str = "gpu", back: GivenBack = LEFT) -> None:
    """The job of this name, the next in its queue, failed by this back end."""
    (granted,) = (await pull(lanes, backend=backend)).jobs
    assert granted.id == id
    assert await lanes.release(id, granted.fence, 1, back) == "waiting"


async def test_only_what_they_failed(lanes: Lanes) -> None:
    await ready(lanes)
    for id in "abc":
        await lanes.submit(job(id, user=id))
    assert await ids(lanes, 5, backend="cpu", left_by=GPU) == []
    await failed(lanes, "a")
    assert await ids(lanes, 5, backend="cpu", left_by=["other"]) == []
    assert await ids(lanes, 5, backend="cpu", left_by=["other", *GPU]) == ["a"]
    assert await ids(lanes, 5, backend="cpu", left_by=GPU) == [], "it runs"
    assert (await record(lanes, "a"))["backend"] == "cpu"
    assert await ids(lanes, 5, backend="gpu") == ["b", "c"]


async def test_for_as_long_as_it_is_left(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await lanes.submit(job("a"))
    await failed(lanes, "a")
    clock.forward(2.1)
    assert await ids(lanes, backend="cpu", left_by=GPU) == []
    assert await ids(lanes, backend="gpu") == ["a"]


async def test_who_failed_it_last_counts(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await failed(lanes, "a", "gpu")
    await failed(lanes, "a", "cpu")
    assert await ids(lanes, backend="cpu", left_by=GPU) == []
    assert await ids(lanes, backend="gpu") == ["a"]


async def test_it_goes_with_what_was_said(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await failed(lanes, "a", back=GivenBack("error", Said("hi"), 1, leave_s=2.0))
    (granted,) = (await pull(lanes, backend="cpu", left_by=GPU)).jobs
    assert (granted.prefix, granted.spent, granted.fails) == (encode_said(Said("hi")), 1, 1)


async def test_one_that_is_gone_or_elsewhere_is_passed_by(lanes: Lanes) -> None:
    """What is noted of it may be behind; nothing that runs or has ended is touched for that."""
    clock = await ready(lanes)
    for id in "abcd":
        await lanes.submit(job(id, user=id))
    await failed(lanes, "a")
    await failed(lanes, "b")
    await failed(lanes, "c")
    assert await ids(lanes, backend="other") == ["a"]
    await lanes.cancel("b")
    await lanes.store.redis.delete(lanes.keys.job("c"))
    assert await ids(lanes, 5, backend="cpu", left_by=GPU) == []
    assert (await record(lanes, "a"))["st"] == "running"
    assert (await record(lanes, "b"))["st"] == "done"
    clock.forward(3)
    assert await ids(lanes, 5, backend="cpu", left_by=GPU) == []


async def test_its_own_bounds_hold(lanes: Lanes) -> None:
    await ready(lanes)
    for id in "abc":
        await lanes.submit(job(id, user=id))
        await failed(lanes, id)
    assert len(await ids(lanes, 5, backend="cpu", left_by=GPU, limits=Limits(slots=2))) == 2
    assert await ids(lanes, 5, backend="cpu", left_by=GPU, limits=Limits(slots=2)) == []
    assert await ids(lanes, 5, backend="cpu", left_by=GPU, limits=Limits(slots=3), models=["other"]) == []
    assert len(await ids(lanes, 5, backend="cpu", left_by=GPU, limits=Limits(slots=3))) == 1


async def test_it_is_found_behind_any_crowd(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a", lane="slow", offset_us=50_000_000, user="a"))
    await failed(lanes, "a")
    for number in range(300):
        await lanes.submit(job(f"b{number}", user=f"b{number}"))
    assert await ids(lanes, 5, backend="cpu", left_by=GPU) == ["a"]


async def test_nothing_of_it_stays(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    await failed(lanes, "a")
    assert 0 < await lanes.store.redis.ttl(lanes.keys.left("m")) <= 62
    await lanes.cancel("a")
    assert await is_quiet(lanes)


async def test_one_that_does_not_fit_hides_no_other(lanes: Lanes) -> None:
    await ready(lanes)
    for id, kv in (("a", 10), ("b", 10), ("c", 5)):
        await lanes.submit(job(id, user=id, kv=kv))
        await failed(lanes, id)
    assert await ids(lanes, 5, backend="cpu", left_by=GPU, limits=Limits(slots=5, kv=15)) == ["a", "c"]
