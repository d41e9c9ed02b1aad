"""``doublebuffer bench`` from its command line to its table, its JSON and its page."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp

from bench.asking import Answer, Asker
from bench.cpu import load_average
from bench.load import Load, session
from bench.page import page
from bench.plan import Plan, capacity_note, plan_of
from bench.processes import BenchError
from bench.progress import Progress
from bench.prompts import SIMULATED, Prompts, Tongue
from bench.report import Report, to_json
from bench.rounds import Rounds
from bench.stack import Stack, simulated_stack
from bench.tongue import learn_tongue
from simulate.study import CAPACITY_CLIENTS
from simulate.workload import Arrival

__all__ = ["BenchError", "run_bench"]


async def run_bench(arguments: argparse.Namespace) -> int:
    """1: something failed that was neither answered nor refused. Raises ``BenchError``."""
    plan = plan_of(arguments)
    for name in ("json", "html"):
        _writable(name, getattr(arguments, name))
    async with _stack(plan) as stack:
        report = await _measure(plan, stack)
    print(report.text())
    _write(arguments.json, to_json(report))
    _write(arguments.html, page(report))
    return 1 if any(row.failed for row in report.rows) else 0


def _writable(name: str, file: str | None) -> None:
    """Better before the rounds than after them."""
    if file:
        path = Path(file)
        new = not path.exists()
        try:
            with path.open("a", encoding="utf-8"):
                pass
            if new:
                path.unlink()
        except OSError as error:
            raise BenchError(f"--{name}: cannot write {file}: {error.strerror or error}.") from None


def _write(file: str | None, text: str) -> None:
    if file:
        Path(file).write_text(text, encoding="utf-8")


@contextlib.asynccontextmanager
async def _stack(plan: Plan) -> AsyncIterator[Stack]:
    if plan.profile is not None:
        async with simulated_stack(
            plan.profile, workers=plan.workers, speed=plan.speed, refuse_wait_s=plan.refuse_wait_s
        ) as stack:
            yield stack
        return
    async with session() as client:
        model, simulated = await _model(client, plan)
    yield Stack(plan.direct, plan.gateway, model, "a simulated engine" if simulated else "")


async def _model(client: aiohttp.ClientSession, plan: Plan) -> tuple[str, bool]:
    """The model to ask, and whether it is a simulated one."""
    headers = {"authorization": f"Bearer {plan.key}"} if plan.key else {}
    url = f"{plan.gateway}/v1/models"
    try:
        async with client.get(url, headers=headers) as response:
            told = await response.json(content_type=None)
            names = [str(model["id"]) for model in told["data"]]
    except (aiohttp.ClientError, OSError, ValueError, LookupError, TypeError) as error:
        raise BenchError(f"--gateway: {url} tells no models ({type(error).__name__}).") from None
    model = plan.model or (names[0] if names else "")
    if not model:
        raise BenchError(f"--gateway: {url} lists no model; name one with --model.")
    return model, model.startswith("simulated-")


async def _measure(plan: Plan, stack: Stack) -> Report:
    progress = Progress(len(plan.drawn) * plan.rounds * 2, plan.rounds)
    tongue = SIMULATED if stack.simulated else await _tongue(plan, stack)
    prompts = Prompts(tongue, seed=plan.seed)
    notes: list[str] = []
    arrivals: Sequence[Arrival] = plan.drawn
    rate = plan.rate
    if plan.load:
        sustained, measured = await _sustained(plan, stack, prompts, progress)
        notes.append(capacity_note(plan, sustained, measured=measured))
        rate = plan.load * sustained
    if not plan.clients:
        arrivals = plan.at(rate)
    load = Load(arrivals, prompts, model=stack.model, speed=plan.speed)
    rounds = Rounds(stack, load, prompts, rounds=plan.rounds, clients=plan.clients, key=plan.key)
    before = load_average()
    runs = await rounds.run(progress)
    return Report(plan, stack.simulated, stack.model, runs, notes, rate=rate, load_average=before)


async def _tongue(plan: Plan, stack: Stack) -> Tongue:
    async with session() as client:
        return await learn_tongue(Asker(client, stack.direct, key=plan.key), model=stack.model, seed=plan.seed)


async def _sustained(plan: Plan, stack: Stack, prompts: Prompts, progress: Progress) -> tuple[float, int]:
    """Requests a second of the engine's time, and with how many requests that was measured; 0: it was computed."""
    if plan.profile is not None:
        return plan.sustained(), 0
    progress.say(f"what the engine sustains: {len(plan.drawn)} requests, direct")
    load = Load(plan.drawn, prompts, model=stack.model, speed=plan.speed)
    async with session() as client:
        asker = Asker(client, stack.direct, key=plan.key)
        answers = await load.run(asker, clients=CAPACITY_CLIENTS, salt="capacity", tell=_unheard)
        took_s = asker.now()
    answered = sum(answer.outcome == "answered" for answer in answers)
    if not answered:
        raise BenchError(f"--direct: the engine answered nothing ({answers[0].trouble}).")
    return answered / took_s / plan.speed, len(answers)


def _unheard(answer: Answer) -> None:
    pass
