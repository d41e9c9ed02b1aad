"""``/dashboard``: the page and its figures, where no keys are set."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from buffer.access import Store
from buffer.job import Usage
from gateway.dashboard.safe import POLICY, SAFE
from tests.gateway.rig import Rig, ollama, rig

PAGE = Path(__file__).parents[2] / "gateway" / "dashboard" / "page"


async def seen(r: Rig) -> dict[str, Any]:
    answer = await r.client.get("/dashboard/data")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    told: dict[str, Any] = answer.json()
    return told


async def test_the_page_and_its_parts_come_with_a_strict_policy() -> None:
    async with rig() as r:
        for path in ("", "/", *(f"/files/{one.name}" for one in PAGE.iterdir() if one.suffix != ".html")):
            answer = await r.client.get(f"/dashboard{path}")
            assert answer.status_code == 200, path
            assert answer.headers["content-security-policy"] == POLICY
            assert answer.headers["x-content-type-options"] == "nosniff"
        for bad in ("/files/index.html", "/files/sign-in.html", "/files/..%2f__init__.py", "/files/none.js", "/none"):
            assert (await r.client.get(f"/dashboard{bad}")).status_code == 404
    for word in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "trusted-types 'none'"):
        assert word in POLICY
    assert "unsafe" not in POLICY


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/none", 404),
        ("GET", "//none/", 404),
        ("GET", "/files/none.js", 404),
        ("GET", "/files/..%2f__init__.py", 404),
        ("GET", "/../dashboard/none", 404),
        ("GET", "/requests/x", 404),
        ("POST", "/data", 405),
        ("DELETE", "", 405),
        ("HEAD", "", 200),
        ("OPTIONS", "/data", 204),
        ("POST", "/sign-out", 303),
    ],
)
async def test_whatever_is_answered_there_is_safe(method: str, path: str, status: int) -> None:
    async with rig() as r:
        answer = await r.client.request(method, httpx.URL(r.url, raw_path=f"/dashboard{path}".encode()))
        assert answer.status_code == status
        for name, value in SAFE:
            assert answer.headers.get_list(name.decode()) == [value.decode()], name


async def test_a_failure_there_is_safe_and_a_neighbour_is_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig() as r:
        answer = await r.client.get("/dashboard/none", headers={"host": "evil.example"})
        assert (answer.status_code, answer.headers["content-security-policy"]) == (403, POLICY)
        answer = await r.client.get("/dashboards")
        assert (answer.status_code, answer.headers.get("content-security-policy")) == (404, None)

        def broken(*_: object) -> None:
            raise ValueError

        monkeypatch.setattr("gateway.routes.dashboard._viewer", broken)
        answer = await r.client.get("/dashboard/data")
        assert (answer.status_code, answer.headers["content-security-policy"]) == (500, POLICY)


def test_the_page_has_nothing_from_elsewhere_and_no_code_in_its_markup() -> None:
    for one in PAGE.iterdir():
        text = one.read_text(encoding="utf-8")
        outside = [word for word in ("https://", "http://") if word in text.replace("http://www.w3.org/2000/svg", "")]
        assert outside == [], one.name
        assert "innerHTML" not in text
        assert "eval(" not in text
        if one.suffix == ".html":
            assert " on" not in text.replace(" only", "").replace(" one", "").replace(" of", "")
            assert "<style" not in text
            assert "style=" not in text
            assert "<script>" not in text
        assert len(text.splitlines()) <= 250


async def test_it_tells_who_waits_and_who_runs() -> None:
    async with rig() as r, asyncio.TaskGroup() as group:
        first = group.create_task(r.client.post("/api/chat", json=ollama(stream=False)))
        job = await r.hands.take()
        second = group.create_task(r.client.post("/api/chat", json=ollama(stream=False)))
        await r.waiting(1)
        told = await seen(r)
        fast = next(lane for lane in told["seen"]["lanes"] if lane["name"] == "fast")
        assert (fast["waiting"], fast["running"]) == (1, 1)
        assert fast["oldest_s"] > 0
        assert told["seen"]["queues"] == [{"model": "qwen3:0.6b", "waiting": 1, "engines": ["engine"]}]
        (engine,) = told["seen"]["engines"]
        assert (engine["name"], engine["jobs"], engine["limit"], engine["state"]) == ("engine", 1, 8, "up")
        assert [worker["id"] for worker in told["seen"]["workers"]] == ["hands"]
        assert told["seen"]["verdict"]["level"] == "ok"
        assert told["viewer"] == {"name": "", "signed_in": False, "admin": True}
        # The list shows parts of ids; with one of these, its timeline can be had.
        (listed,) = told["seen"]["under_way"]
        assert job.id.startswith(listed["ref"])
        assert job.id not in str(told)
        line = (await r.client.get(f"/dashboard/requests/{listed['ref']}")).json()
        assert (line["state"], line["backend"], line["lane"]) == ("running", "engine", "fast")
        r.hands.say(job, "one two", Usage(7, 2))
        await r.hands.end(job)
        await r.hands.answer("three")
        assert {(await first).status_code, (await second).status_code} == {200}
        line = (await r.client.get(f"/dashboard/requests/{job.id}")).json()
        at = line["timeline"]
        assert line["state"] == "done"
        assert at["arrival"] <= at["started"] <= at["first_token"] <= at["ended"] <= line["now"]
        assert "one two" not in str(line)
        assert "Hello" not in str(line)


async def test_an_id_that_nobody_knows_has_no_timeline() -> None:
    async with rig() as r:
        for id in ("0" * 32, "0" * 12, "x", "%2e%2e"):
            answer = await r.client.get(f"/dashboard/requests/{id}")
            assert answer.status_code == 404


async def test_all_who_look_cost_one_read_a_second_and_nobody_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig() as r:
        # However long this machine takes for thirty answers.
        monkeypatch.setattr("gateway.dashboard.watch.FRESH_S", 60.0)
        reads = 0
        call = Store.call

        def count(name: str, **given: Any) -> Any:
            nonlocal reads
            reads += name == "depths"
            return call(name, **given)

        monkeypatch.setattr(Store, "call", staticmethod(count))
        await asyncio.sleep(0.3)
        assert reads == 0
        answers = await asyncio.gather(*(seen(r) for _ in range(30)))
        # One for chats, one for embeddings.
        assert reads == 2
        assert len({answer["seen"]["at"] for answer in answers}) == 1


async def test_a_dead_letter_is_told_with_its_reason() -> None:
    async with rig() as r:
        entry = {
            "id": "ab" * 16,
            "model": "m",
            "lane": "fast",
            "reason": "Three workers died over it.",
            "at": "1000000",
        }
        await r.store.redis.xadd(r.lanes.keys.dead, entry)
        told = (await seen(r))["seen"]
        assert told["dead"] == 1
        assert told["letters"] == [
            {"ref": "ab" * 6, "at": 1.0, "lane": "fast", "model": "m", "reason": "Three workers died over it."}
        ]


async def test_nothing_there_yet() -> None:
    async with rig(show=False) as r:
        told = (await seen(r))["seen"]
        assert told["verdict"]["says"] == "No worker is running, so nothing is answered."
        assert (told["engines"], told["workers"], told["dead"]) == ([], [], 0)


async def test_while_the_store_is_away_the_last_look_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig() as r:
        await seen(r)
        monkeypatch.setattr("gateway.dashboard.watch.FRESH_S", 0.0)

        async def silent(*_: object, **__: object) -> None:
            await asyncio.sleep(60)

        monkeypatch.setattr("buffer.lookout.PATIENCE_S", 0.05)
        monkeypatch.setattr("buffer.lookout.read_overview", silent)
        told = (await seen(r))["seen"]
        assert told["verdict"] == {
            "level": "broken",
            "says": "Redis does not answer in time.",
            "why": ["What is new is refused until it answers again; what is under way waits and then goes on."],
        }
        assert told["store"]["seen"] is True
        assert [engine["name"] for engine in told["engines"]] == ["engine"]


async def test_the_page_is_no_part_of_another_origin() -> None:
    async with rig() as r, httpx.AsyncClient(base_url=r.url) as stranger:
        answer = await stranger.get("/dashboard/data", headers={"host": "evil.example"})
        assert answer.status_code == 403
        answer = await stranger.get("/dashboard/data", headers={"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in answer.headers
