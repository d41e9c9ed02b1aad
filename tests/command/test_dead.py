"""``doublebuffer dead`` before a real Redis."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from buffer.job import End, Failure
from buffer.lanes import Lanes
from buffer.records import GivenBack
from buffer.store import open_store
from tests.buffer.jobs import running
from tests.rig.processes import run_to_end

LAST = GivenBack("error", max_attempts=1, failure=End("failed", Failure("It broke.")))


@pytest.fixture
async def lanes(redis_url: str) -> AsyncIterator[Lanes]:
    store = await open_store(redis_url)
    yield Lanes(store)
    await store.redis.flushall()
    await store.aclose()


async def dies(lanes: Lanes, id: str, *, det: bool = False) -> None:
    granted = await running(lanes, id, det=det, user="key:ann", body=b'{"secret": "words"}')
    await lanes.release(id, granted.fence, 1, LAST)


async def dead(redis_url: str, tmp_path: Path, *command: str) -> tuple[int, str, str]:
    return await run_to_end(["dead", *command, "--redis-url", redis_url], directory=tmp_path)


async def test_dead_letters_are_listed_shown_and_dropped(lanes: Lanes, redis_url: str, tmp_path: Path) -> None:
    code, out, _ = await dead(redis_url, tmp_path, "list")
    assert (code, out) == (0, "No dead letters.\n")
    assert json.loads((await dead(redis_url, tmp_path, "list", "--json"))[1]) == []

    await dies(lanes, "abc1")
    await dies(Lanes(lanes.store, "other"), "abd2")
    code, out, _ = await dead(redis_url, tmp_path, "list")
    head, first, second = out.splitlines()
    assert code == 0
    assert head.split() == ["AT", "ID", "POOL", "MODEL", "LANE", "USER", "REASON"]
    assert first.split()[2:] == ["abc1", "default", "m", "fast", "key:ann", "attempts", "used", "up"]
    assert second.split()[2:4] == ["abd2", "other"]

    told = json.loads((await dead(redis_url, tmp_path, "list", "--json"))[1])
    assert [one["id"] for one in told] == ["abc1", "abd2"]
    assert told[0].keys() == {"id", "at", "pool", "model", "lane", "user", "reason"}
    assert told[0]["at"].endswith("Z")

    code, out, _ = await dead(redis_url, tmp_path, "show", "abc")
    assert code == 0
    assert "attempts used up" in out
    assert "cannot be tried again: the request itself is not kept" in out
    assert "secret" not in out

    code, out, _ = await dead(redis_url, tmp_path, "drop", "abc1")
    assert (code, out) == (0, "1 dead letter dropped.\n")
    code, out, _ = await dead(redis_url, tmp_path, "drop", "ALL")
    assert (code, out) == (0, "1 dead letter dropped.\n")
    assert (await dead(redis_url, tmp_path, "list"))[1] == "No dead letters.\n"


async def test_it_says_so_where_nothing_can_be_done(lanes: Lanes, redis_url: str, tmp_path: Path) -> None:
    await dies(lanes, "abc1")
    await dies(lanes, "abd2")
    for action in ("show", "retry"):
        code, out, log = await dead(redis_url, tmp_path, action, "nobody")
        assert (code, out) == (1, "")
        assert (
            log
            == "doublebuffer: There is no dead letter 'nobody'; `doublebuffer dead list` shows those that there are.\n"
        )
        code, _, log = await dead(redis_url, tmp_path, action, "ab")
        assert code == 1
        assert log == "doublebuffer: 2 dead letters begin with 'ab'; give more of the id.\n"
    code, out, log = await dead(redis_url, tmp_path, "retry", "abc1")
    assert (code, out) == (1, "")
    assert log.startswith("doublebuffer: abc1 cannot be tried again")
    assert "has to send it again" in log
    assert log.count("\n") == 1
    assert len(json.loads((await dead(redis_url, tmp_path, "list", "--json"))[1])) == 2


async def test_a_detached_request_is_tried_again(lanes: Lanes, redis_url: str, tmp_path: Path) -> None:
    await dies(lanes, "abc1", det=True)
    _, out, _ = await dead(redis_url, tmp_path, "show", "abc1")
    assert "can be tried again: doublebuffer dead retry abc1" in out
    code, out, _ = await dead(redis_url, tmp_path, "retry", "abc1")
    assert (code, out) == (0, "abc1 is back in its queue.\n")
    assert (await lanes.place("abc1")).state == "waiting"
    assert (await dead(redis_url, tmp_path, "list"))[1] == "No dead letters.\n"


async def test_without_a_redis_it_is_refused(tmp_path: Path) -> None:
    code, out, log = await run_to_end(["dead", "list"], directory=tmp_path)
    assert (code, out) == (2, "")
    assert log.startswith("doublebuffer: REDIS_URL is unset")
    assert log.count("\n") == 1


async def test_a_redis_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    code, _, log = await dead("redis://127.0.0.1:1/0", tmp_path, "list")
    assert code == 2
    assert "doublebuffer: REDIS_URL: redis://127.0.0.1:1/0 cannot be used" in log


@pytest.mark.parametrize("action", ["list", "drop"])
async def test_each_action_has_help(action: str, tmp_path: Path) -> None:
    code, out, _ = await run_to_end(["dead", action, "--help"], directory=tmp_path)
    assert code == 0
    assert out.startswith(f"usage: doublebuffer dead {action}")
    assert "REDIS_URL" in out
