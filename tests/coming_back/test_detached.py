"""Clients that asked to outlive their connection: they leave, and have their answer all the same."""

from __future__ import annotations

import asyncio

import pytest

from buffer.job import End, Failure, Finish, Reasoning, ToolDelta, Usage
from tests.coming_back.rig import BODIES, DETACH, EVERYWHERE, Event, body, gates, leaves, reading, told, words
from tests.gateway.rig import PLAIN, until

PATHS = pytest.mark.parametrize("path", BODIES)


@pytest.fixture
def url(request: pytest.FixtureRequest, kind: str) -> str | None:
    return request.getfixturevalue("redis_url") if kind == "redis" else None


@pytest.mark.parametrize(("path", "kind"), EVERYWHERE)
async def test_it_leaves_while_it_waits_and_reads_all_of_it_elsewhere(path: str, url: str | None) -> None:
    async with gates(url) as g:
        id = await leaves(g.one, path, body(path))
        found = await g.state(id, state="waiting", detached=True)
        assert (found["queue_place"], found["lane"], found["model"]) == (1, "fast", "qwen3:0.6b")
        assert found["backend"] is None
        assert found["timeline"]["started"] is None
        job = await g.hands.take()
        async with reading(g.two, id) as reader:
            g.hands.say(job, "Hel", "lo ")
            heard = [await reader.next()]
            while "Hello " not in words(path, heard):
                heard.append(await reader.next())
            await g.state(id, state="running", backend="engine", attempts=1)
            g.hands.say(job, "you", Finish("stop"), Usage(7, 3))
            await g.hands.end(job)
            heard += await reader.rest()
        assert words(path, heard) == "Hello you"
        ended = await g.state(id, state="done", error=None, takeovers=0)
        line = ended["timeline"]
        assert line["arrival"] <= line["started"] <= line["first_token"] <= line["ended"]
        assert _as_told(await told(g.one, id)) == _as_told(heard)
        assert all(event.id for event in heard)
        assert len({event.id for event in heard}) == len(heard)


@PATHS
async def test_it_goes_on_from_any_event(path: str) -> None:
    """Whatever it read last, the rest is what it lacks: nothing twice, nothing missing."""
    async with gates(None, 1) as g:
        id = await leaves(g.one, path, body(path, stream=True))
        job = await g.hands.take()
        g.hands.say(job, Reasoning("Well"), "Hel", "lo", " you", Finish("stop"), Usage(7, 4))
        await g.hands.end(job)
        await g.state(id, state="done")
        heard = await told(g.one, id)
        for count, event in enumerate(heard[:-1], 1):
            assert _as_told(await told(g.one, id, event.id)) == _as_told(heard[count:])
        over = await g.one.client.get(f"/v1/requests/{id}/stream", headers={"Last-Event-ID": heard[-1].id})
        assert (over.status_code, over.content) == (204, b"")


def _as_told(found: list[Event]) -> list[tuple[str, str]]:
    """But for the instants in Ollama's lines and the figures that come from them."""
    return [(event.id, event.data if "_at" not in event.data else words("/api/chat", [event])) for event in found]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat"])
async def test_calls_of_tools_are_told_once(path: str) -> None:
    async with gates(None, 1) as g:
        id = await leaves(g.one, path, body(path))
        job = await g.hands.take()
        call = [ToolDelta(0, "c1", "w", '{"a"'), ToolDelta(0, arguments=":1}")]
        g.hands.say(job, "Hm ", *call, Finish("tool_calls"), Usage(7, 4))
        await g.hands.end(job)
        await g.state(id, state="done")
        heard = await told(g.one, id)
        for count, event in enumerate(heard[:-1], 1):
            rest = await told(g.one, id, event.id)
            assert [one.id for one in rest] == [one.id for one in heard[count:]]


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat", "/api/generate"]
)
async def test_an_answer_in_one_piece_is_told_as_a_stream(path: str) -> None:
    async with gates(None) as g, asyncio.TaskGroup() as group:
        asked = group.create_task(g.one.client.post(path, json=body(path, stream=False), headers=DETACH))
        job = await g.hands.take()
        g.hands.say(job, "Hel")
        async with reading(g.two, job.id) as reader:
            heard = [await reader.next()]
            while "Hel" not in words(path, heard):
                heard.append(await reader.next())
            g.hands.say(job, "lo", Finish("stop"), Usage(7, 3))
            await g.hands.end(job)
            heard += await reader.rest()
        assert words(path, heard) == "Hello"
        whole = await asked
        assert whole.status_code == 200
        assert b"Hello" in whole.content
        assert whole.headers["x-doublebuffer-id"] == job.id


async def test_usage_is_told_of_an_answer_in_one_piece() -> None:
    async with gates(None, 1) as g, asyncio.TaskGroup() as group:
        path = "/v1/chat/completions"
        group.create_task(g.one.client.post(path, json=body(path, stream=False)))
        job = await g.hands.answer("Hi")
        last = (await told(g.one, job.id))[-2].json()
        assert last["usage"] == {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8}


@PATHS
@pytest.mark.parametrize("stream", [True, False])
async def test_its_job_goes_on_to_its_end_and_is_counted(path: str, stream: bool) -> None:
    async with gates(None) as g:
        asking = asyncio.ensure_future(g.one.client.post(path, json=body(path, stream=stream), headers=DETACH))
        job = await g.hands.take()
        g.hands.say(job, "Hel")
        asking.cancel()
        await asyncio.wait([asking])
        g.hands.say(job, "lo", Finish("stop"), Usage(7, 3))
        assert await g.hands.end(job) == "ok"
        assert words(path, await told(g.two, job.id)) == "Hello"
        api = {"/api": "ollama", "/v1/r": "responses", "/v1/m": "anthropic"}
        name = next((name for start, name in api.items() if path.startswith(start)), "openai")

        async def counted() -> bool:
            return g.one.metric(f'requests_total{{api="{name}",lane="fast",outcome="ok"}}') == 1

        await until(counted)
        assert g.one.metric('tokens_total{direction="completion"}') == 3


async def test_a_stream_says_its_id_at_once() -> None:
    async with gates(None, 1) as g, asyncio.timeout(2):
        await leaves(g.one, "/v1/chat/completions", body("/v1/chat/completions"))


async def test_an_engine_that_refuses_at_once_still_gives_its_status() -> None:
    async with gates(None, 1) as g, asyncio.TaskGroup() as group:
        path = "/v1/chat/completions"
        asked = group.create_task(g.one.client.post(path, json=body(path), headers=DETACH))
        job = await g.hands.take()
        await g.hands.end(job, End("failed", Failure("The prompt is too long.", 400, "context_length_exceeded")))
        assert (await asked).status_code == 400
        found = await g.state(job.id, state="failed")
        assert found["error"] == "The prompt is too long."
        (error, done) = await told(g.one, job.id)
        assert error.json()["error"]["message"] == "The prompt is too long."
        assert done.data == "[DONE]"


async def test_several_prompts_are_one_answer_still() -> None:
    async with gates(None, 1) as g:
        path = "/v1/completions"
        asked = body(path, prompt=["One", "Two"], model=PLAIN, stream_options={"include_usage": True})
        id = await leaves(g.one, path, asked)
        await g.hands.take(2)
        first, second = sorted(g.hands.granted, key=lambda job: job.id != id)
        g.hands.say(second, "b1", "b2", Finish("stop"), Usage(2, 2))
        g.hands.say(first, "a1", "a2", Finish("length"), Usage(3, 2))
        await g.hands.end(first)
        await g.hands.end(second)
        await g.state(id, state="done")
        heard = await told(g.one, id)
        for count in range(len(heard)):
            rest = await told(g.one, id, heard[count - 1].id) if count else heard
            both = ["", ""]
            for event in heard[:count] + rest:
                for choice in event.json()["choices"] if event.data != "[DONE]" else []:
                    both[choice["index"]] += choice["text"]
            assert both == ["a1a2", "b1b2"], count
            assert (heard[:count] + rest)[-2].json()["usage"]["total_tokens"] == 9


async def test_a_word_that_is_none_is_refused() -> None:
    async with gates(None, 1) as g:
        path = "/v1/chat/completions"
        refused = await g.one.client.post(path, json=body(path), headers={"X-Doublebuffer-Detach": "maybe"})
        assert refused.status_code == 400
        assert "X-Doublebuffer-Detach" in refused.text
        await g.waiting(0)
        told_off = asyncio.ensure_future(
            g.one.client.post(path, json=body(path), headers={"X-Doublebuffer-Detach": "false"})
        )
        await g.waiting(1)
        told_off.cancel()
        await g.waiting(0)


async def test_a_long_answer_is_not_held_up_for_want_of_a_reader() -> None:
    """Nobody reads it, and its worker is not asked to wait; who comes back slowly has all of it."""
    async with gates(None) as g:
        path = "/v1/chat/completions"
        id = await leaves(g.one, path, body(path))
        job = await g.hands.take()
        for number in range(60):
            g.hands.say(job, f"<{number}>" + "x" * 65536)
            await asyncio.sleep(0)
        g.hands.say(job, Finish("stop"))
        async with asyncio.timeout(20):
            assert await g.hands.end(job) == "ok"
        heard = words(path, await told(g.two, id))
        assert heard.count("x") == 60 * 65536
        assert all(f"<{number}>" in heard for number in range(60))


@pytest.mark.slow
async def test_a_detached_job_that_waits_too_long_expires_without_its_client() -> None:
    async with gates(None, queue_timeout_seconds=0.5) as g:
        id = await leaves(g.one, "/api/chat", body("/api/chat"))
        found = await g.state(id, state="expired")
        assert found["error"]
