"""submit."""

from __future__ import annotations

from buffer.job import End
from buffer.lanes import LARGE_BODY, Lanes
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import length, lifetime, requeue
from tests.buffer.jobs import INBOX, ids, job, kinds, pull, ready, record, running


async def _status(lanes: Lanes, id: str, limit: int = 0, **fields: object) -> str:
    return (await lanes.submit(job(id, **fields), limit=limit)).status


@guard("_submitting", "if known and known.fence >= floor then", "if false then")
async def test_submitted_twice_it_is_one_job(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    assert [await _status(lanes, "a") for _ in range(2)] == ["new", "known"]
    assert await length(lanes, "jobs:fast") == 1


@guard("_submitting", "if known.st == 'done' then", "if false then")
async def test_an_ended_job_submitted_again_is_not_kept(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.settle("a", granted.fence, 1, End("done"))
    assert await _status(lanes, "a", body=b"x" * (LARGE_BODY + 1)) == "known"
    assert "body" not in await record(lanes, "a")
    assert await lifetime(lanes, "job:a") <= 600


@guard("_submitting", "if known.st == 'done' then", "if true then")
async def test_an_open_job_submitted_again_has_its_new_inbox(lanes: Lanes) -> None:
    await running(lanes)
    await _status(lanes, "a", inbox="gate:2")
    fields = await record(lanes, "a")
    assert (fields["inbox"], fields.get("body")) == ("gate:2", "{}")


@guard("_submitting", "limit > 0 and ", "")
async def test_without_a_limit_nobody_is_refused(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    assert await _status(lanes, "a") == "new"


@guard("_submitting", "if limit > 0 and waiting + math.max(inputs, 1) > limit then", "if false then")
async def test_above_the_limit_it_is_refused(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    assert [await _status(lanes, id, 1) for id in "ab"] == ["new", "full"]
    assert await record(lanes, "b") == {}


@guard("_submitting", "waiting + math.max(inputs, 1) > limit", "waiting + 1 > limit")
async def test_of_embeddings_the_limit_counts_inputs(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    assert await _status(lanes, "a", 5, inputs=6) == "full"


@guard("_submitting", "waiting = waiting + tonumber(count_of) - 1", "waiting = waiting + 0")
async def test_of_embeddings_that_wait_the_limit_counts_inputs(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    assert [await _status(lanes, id, 5, inputs=3) for id in "ab"] == ["new", "full"]


@guard("_submitting", "if waiting == 0 then", "if false then")
async def test_what_was_left_of_inputs_is_forgotten_when_nobody_waits(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await lanes.store.redis.hset(lanes.keys.inputs("fast"), "none", 9)
    assert await _status(lanes, "a", 5, inputs=3) == "new"
    await lanes.cancel("a")


@guard("_submitting", "if inputs > 0 then", "if true then")
async def test_chats_are_counted_as_one_each_beside_embeddings(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await _status(lanes, "a", inputs=3)
    assert await _status(lanes, "b", 2) == "new"
    await ids(lanes, 2)


@guard("_submitting", "lane == 'background' and background or people", "people")
async def test_background_jobs_have_a_limit_of_their_own(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await _status(lanes, "a")
    assert [await _status(lanes, id, 1, lane="background") for id in "bc"] == ["new", "full"]


@guard("_submitting", "if call('EXISTS', P .. 'inbox:' .. inbox) == 0 then", "if false then")
@guard("_submitting", "  if homeless then\n    return {'homeless'", "  if false then\n    return {'homeless'")
async def test_a_job_whose_inbox_is_gone_is_refused(lanes: Lanes) -> None:
    assert await _status(lanes, "a") == "homeless"
    assert await record(lanes, "a") == {}


@guard("_submitting", "  if homeless then\n    return {'homeless'", "  if true then\n    return {'homeless'")
async def test_a_detached_one_is_not(lanes: Lanes) -> None:
    assert await _status(lanes, "a", det=True) == "new"


@guard("_submitting", "if homeless and not known then", "if not known then")
async def test_its_large_body_stays(lanes: Lanes) -> None:
    await _status(lanes, "a", det=True, body=b"x" * (LARGE_BODY + 1))
    assert "body" in await record(lanes, "a")


@guard("_submitting", "if homeless and not known then", "if false then")
async def test_that_of_a_refused_one_does_not(lanes: Lanes) -> None:
    await _status(lanes, "a", body=b"x" * (LARGE_BODY + 1))
    assert "body" not in await record(lanes, "a")


@guard("_submitting", "  call('XADD', P .. 'bell', 'MAXLEN', 16, '*', 'k', 'order')\n", "")
async def test_where_the_inbox_is_gone_the_bell_rings_for_whoever_may_have_lost_orders(lanes: Lanes) -> None:
    await _status(lanes, "a", det=True)
    assert await length(lanes, "bell") == 1


@guard("_submitting", "lane == 'background' and 0 or ", "")
async def test_a_background_job_has_no_due_time(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await _status(lanes, "a", lane="background")
    assert (await record(lanes, "a"))["due"] == "0"


@guard("_submitting", "if value ~= else_it_is then", "if true then")
async def test_a_large_body_put_there_ahead_stays(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await _status(lanes, "a", body=b"x" * (LARGE_BODY + 1))
    (body,) = await lanes.body(["a"])
    assert len(body or b"") == LARGE_BODY + 1


@guard("_submitting", "if call('ZADD', P .. 'models', NOW, model) == 1 then", "if false then")
async def test_what_models_were_asked_for_is_not_kept_for_ever(lanes: Lanes) -> None:
    await lanes.create_inbox(INBOX)
    await _status(lanes, "a")
    assert await lifetime(lanes, "models") > 60


@guard("_submitting", "if heard_of then", "if false then")
async def test_a_reply_key_of_an_earlier_life_is_not_gone_on_with(lanes: Lanes) -> None:
    granted = await running(lanes)
    await lanes.store.redis.delete(lanes.keys.job("a"), lanes.keys.lease, lanes.keys.load("b"))
    assert granted.fence > 0
    assert await _status(lanes, "a") == "new"
    assert await kinds(lanes, "a") == [("0-1", "queued")]


@guard("_submitting", "math.max(tonumber(clock or '0'), ", "math.max(0, ")
async def test_a_user_who_comes_late_does_not_pass_all(lanes: Lanes) -> None:
    await ready(lanes)
    for number in range(3):
        await _status(lanes, f"a{number}", user="a")
    await pull(lanes, 2)
    await _status(lanes, "b", user="b")
    assert (await record(lanes, "b"))["tag"] == "100"
    await requeue(lanes, 0, id="b")


@guard("_submitting", ", tonumber(last or '0'))", ")")
async def test_nobody_passes_himself(lanes: Lanes) -> None:
    """Two jobs were charged for more than they took; one more waits, and a new one is not to go before it."""
    await ready(lanes)
    for id in "abc":
        await _status(lanes, id)
    for granted in (await pull(lanes, 2)).jobs:
        await lanes.settle(granted.id, granted.fence, 1, End("done"), real_tokens=1)
    await _status(lanes, "new")
    assert [(await record(lanes, id))["tag"] for id in ("c", "new")] == ["200", "200"]
    assert await ids(lanes, 2) == ["c", "new"]


@guard("_submitting", "tonumber(turn or '0'), ", "")
async def test_a_users_second_job_has_a_later_turn(lanes: Lanes) -> None:
    await ready(lanes)
    for id in "ab":
        await _status(lanes, id)
    assert (await record(lanes, "b"))["tag"] == "100"
