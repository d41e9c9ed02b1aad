"""Requests go out when they are due, or as fast as their clients get answers; and what came back is read as it was."""

from __future__ import annotations

import asyncio
import math
import time

import pytest
from aiohttp import web

from bench.asking import Answer, Asker
from bench.load import Load, session
from bench.prompts import SIMULATED, Prompts
from simulate.workload import Arrival
from tests.simulate.serving import served

MODEL = "simulated-qwen3:14b"


class Counting(Asker):
    """Answers by itself, a little later."""

    def __init__(self, takes_s: float) -> None:
        self.began_at = time.perf_counter()
        self.takes_s = takes_s
        self.at_once = self.most = 0

    async def ask(self, answer: Answer, body: bytes) -> Answer:
        answer.sent_at = self.now()
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(self.takes_s)
        self.at_once -= 1
        return answer


def load(arrivals: list[Arrival], *, speed: float = 1.0) -> Load:
    return Load(arrivals, Prompts(SIMULATED, seed=1), model=MODEL, speed=speed)


async def test_an_open_loop_waits_for_nobody() -> None:
    asker, told = Counting(takes_s=0.3), list[Answer]()
    arrivals = [Arrival(at / 10, 60, 8) for at in range(10)]
    answers = await load(arrivals, speed=10.0).run(asker, clients=0, salt="x", tell=told.append)
    assert [answer.number for answer in answers] == list(range(10))
    assert [answer.due_at for answer in answers] == pytest.approx([at / 100 for at in range(10)])
    assert all(answer.sent_at >= answer.due_at for answer in answers)
    assert asker.most == 10
    assert len(told) == 10


async def test_a_closed_loop_has_one_request_a_client() -> None:
    asker = Counting(takes_s=0.005)
    answers = await load([Arrival(0.0, 60, 8)] * 20).run(asker, clients=3, salt="x", tell=lambda _: None)
    assert [answer.number for answer in answers] == list(range(20))
    assert asker.most == 3


@pytest.mark.parametrize("profile", ["rtx4090-vllm", "rtx4090-ollama"])
async def test_answers_are_read_to_their_last_token(profile: str) -> None:
    async with served(profile, ignore_eos=True) as url, session() as client:
        asker = Asker(client, url)
        arrivals = [Arrival(0.0, 60, 300), Arrival(0.0, 700, 20)]
        answers = await load(arrivals).run(asker, clients=2, salt="x", tell=lambda _: None)
    assert [answer.outcome for answer in answers] == ["answered", "answered"]
    assert [answer.tokens for answer in answers] == [300, 20]
    assert [answer.prompt_tokens for answer in answers] == [60, 700]
    assert [answer.lane for answer in answers] == ["fast", "normal"]
    for answer in answers:
        assert answer.sent_at < answer.first_at < answer.last_at <= answer.ended_at
        assert answer.token_s == pytest.approx((answer.last_at - answer.first_at) / (answer.tokens - 1))


async def test_what_is_no_answer_is_told_as_what_it_is() -> None:
    async def by_path(request: web.Request) -> web.StreamResponse:
        which = request.match_info["which"]
        if which == "full":
            return web.Response(status=503)
        if which == "wrong":
            return web.Response(status=404)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n: a comment\n\n')
        piece = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
        await response.write(piece[:20])
        await response.write(piece[20:] + piece)
        if which == "error":
            await response.write(b'data: {"error":{"message":"secret words"}}\n\n')
        if which == "noise":
            await response.write(b"data: {not json}\n\n")
        return response

    app = web.Application()
    app.router.add_post("/{which}/v1/chat/completions", by_path)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        async with session() as client:
            found = {}
            for which in ("full", "wrong", "cut", "error", "noise"):
                found[which] = await Asker(client, f"http://{host}:{port}/{which}").ask(Answer(0, "fast", 0.0), b"{}")
            nobody = await Asker(client, "http://127.0.0.1:9").ask(Answer(0, "fast", 0.0), b"{}")
    finally:
        await runner.cleanup()
    assert {name: (one.outcome, one.trouble) for name, one in found.items()} == {
        "full": ("refused", "status 503"),
        "wrong": ("failed", "status 404"),
        "cut": ("failed", "cut off"),
        "error": ("failed", "error in the answer"),
        "noise": ("failed", "unreadable"),
    }
    assert found["cut"].pieces == 2
    assert not math.isnan(found["cut"].first_at)
    assert math.isnan(found["full"].first_at)
    assert nobody.outcome == "failed"
