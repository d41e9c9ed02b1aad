"""What the overhead bench counts, and what it makes of it."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bench.cost.claims import Claim, claims
from bench.cost.engine import Engine
from bench.cost.load import Ask, put
from bench.cost.machine import machine
from bench.cost.plot import plot
from bench.cost.processes import cpu_s, family, memory_bytes
from bench.cost.result import Result
from bench.cost.rows import figures, middle, quantile


@asynccontextmanager
async def engine() -> AsyncIterator[int]:
    server = await asyncio.get_running_loop().create_server(Engine, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("ask", [Ask(3, False, 5, for_s=0.0), Ask(3, True, 20, for_s=0.0)])
async def test_every_token_is_counted_once(ask: Ask) -> None:
    async with engine() as port:
        heard = await put(port, ask)
    assert (heard.answers, heard.lost, heard.tokens) == (3, 0, 3 * ask.tokens)
    assert len(heard.whole_s) == 3
    assert len(heard.first_s) == (3 if ask.stream else 0)
    assert len(heard.gaps_s) == (3 * (ask.tokens - 1) if ask.stream else 0)


async def test_a_client_asks_again_on_its_connection_until_the_time_is_over() -> None:
    async with engine() as port:
        heard = await put(port, Ask(1, False, 1, for_s=0.05))
    assert heard.answers > 1
    assert heard.lost == 0


async def test_tokens_come_at_the_pace_that_was_asked_for() -> None:
    ask = Ask(2, True, 4, first_us=50_000, every_us=20_000, for_s=0.0)
    async with engine() as port:
        found = figures(ask, await put(port, ask), 0.002)
    assert found["first_p50_ms"] >= -2
    assert found["gap_p95_ms"] >= 15
    assert found["cpu_us_answer"] == pytest.approx(1000)
    assert found["cpu_us_token"] == pytest.approx(250)


async def test_nobody_there_is_an_answer_lost() -> None:
    async with engine() as port:
        pass
    heard = await put(port, Ask(2, False, 1, for_s=0.0))
    assert (heard.answers, heard.lost) == (0, 2)


def test_medians_of_rounds() -> None:
    rounds = [{"whole_p50_ms": value, "lost": 1.0} for value in (3.0, 1.0, 2.0)]
    assert middle(rounds) == {"whole_p50_ms": 2.0, "lost": 3.0}
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0
    assert math.isnan(quantile([], 0.5))


def test_cpu_and_memory_of_this_very_process() -> None:
    own = os.getpid()
    assert own in family([own])
    before = cpu_s([own])
    sum(range(2_000_000))
    assert cpu_s([own]) > before
    assert memory_bytes([own]) > 1_000_000


def test_ratios_are_told_and_what_was_not_measured_is_none() -> None:
    row = {
        name: {"whole_p50_ms": value, "whole_p99_ms": value, "cpu_us_answer": value}
        for name, value in (("direct", 0.1), ("nginx", 0.3), ("doublebuffer", 1.1))
    }
    result = Result(machine(), 1, {}, {"whole-1": row}, {})
    first, second, *_ = claims(result)
    assert (first.value, first.holds) == (pytest.approx(5.0), True)
    assert (second.holds, "not measured" in second.told()) == (None, True)
    assert Claim("x", 1.0, 2.0, least=True).holds is False
    assert "| answer p50, ms | 0.10 | 0.30 | 1.10 |" in result.table()
    assert plot(result).startswith("<svg")
    assert "NaN" not in result.as_json()
