"""``doublebuffer bench``: what it costs and what it brings to stand in between, measured on real processes."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from buffer.setting_sources import SettingsError
from doublebuffer import overheading

if TYPE_CHECKING:
    from argparse import _SubParsersAction

STOPPED = 130
SIMULATED = ("rtx4090-vllm", "rtx4090-ollama", "h100-vllm")
Bench = Callable[[argparse.Namespace], Coroutine[Any, Any, int]]


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "the same requests direct and through the gateway, in turns, against real processes"
    parser = commands.add_parser(
        "bench",
        help=text,
        description=f"{text[0].upper()}{text[1:]}. Every figure that a simulated engine had a part in says so.",
        allow_abbrev=False,
    )
    # Another bench is a subcommand of this parser, and sets ``bench`` to what it runs.
    parser.set_defaults(bench=run_load)
    where = parser.add_argument_group(
        "where", "Either --simulate, which starts all that it needs, or --direct and --gateway for what runs already."
    )
    where.add_argument(
        "--simulate",
        metavar="PROFILE",
        help=f"a simulated engine, a Redis, a gateway and workers of its own: {', '.join(SIMULATED)} "
        "(default: rtx4090-vllm)",
    )
    where.add_argument("--direct", metavar="URL", help="an engine that speaks OpenAI's API, without /v1")
    where.add_argument("--gateway", metavar="URL", help="the gateway in front of that engine")
    where.add_argument("--model", metavar="NAME", help="the model to ask (default: the first that the gateway lists)")
    where.add_argument("--api-key", metavar="KEY", help="for both, where they ask for one")
    where.add_argument("--workers", type=int, default=2, metavar="N", help="with --simulate (default: 2)")
    where.add_argument("--slots", type=int, metavar="N", help="with --simulate: sequences side by side (Ollama: 4)")
    where.add_argument("--num-ctx", type=int, metavar="N", help="with --simulate: longest prompt and answer, in tokens")
    where.add_argument(
        "--speed",
        type=float,
        default=1.0,
        metavar="X",
        help="the engine's time, and the gateway's waits with it, X times as fast (default: 1); "
        "with --direct: what runs already runs so",
    )
    what = parser.add_argument_group("what")
    of = what.add_mutually_exclusive_group()
    of.add_argument(
        "--workload", choices=("chat", "mix", "mix85k", "refusal"), help="who asks for how much (default: mix)"
    )
    of.add_argument("--trace", metavar="FILE", help="CSV with arrival_s, prompt_tokens and output_tokens")
    how = what.add_mutually_exclusive_group()
    how.add_argument(
        "--load",
        type=float,
        metavar="X",
        help="share of what the engine sustains when all is sent direct (default: 0.7, of refusal 1.3)",
    )
    how.add_argument("--rate", type=float, metavar="X", help="requests a second, in the engine's time")
    how.add_argument("--clients", type=int, metavar="N", help="a closed loop of N, each with one request at a time")
    what.add_argument("--requests", type=int, default=200, metavar="N", help="of a round (default: 200)")
    what.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="each sends all requests direct and through (default: 3)"
    )
    what.add_argument("--seed", type=int, default=1, metavar="N", help="the same seed is the same requests")
    parser.add_argument("--json", metavar="FILE", help="also writes all figures, each request's among them")
    parser.add_argument("--html", metavar="FILE", help="also writes a page with plots")
    overheading.add_parser(parser.add_subparsers(title="other benches", metavar="BENCH"))


async def run(arguments: argparse.Namespace) -> int:
    """The bench that the command line names; its exit code. A signal ends it, and what it has started.

    Raises ``SettingsError``.
    """
    bench: Bench = arguments.bench
    task = asyncio.current_task()
    if task is not None:
        # The loop's runner does the same on SIGINT.
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await bench(arguments)
    except asyncio.CancelledError:
        print("doublebuffer: bench: stopped before its end.", file=sys.stderr)
        return STOPPED


async def run_load(arguments: argparse.Namespace) -> int:
    """``doublebuffer bench`` by itself. Raises ``SettingsError``."""
    from bench.command import BenchError, run_bench

    try:
        return await run_bench(arguments)
    except BenchError as error:
        raise SettingsError(f"bench: {error}") from None
