"""``doublebuffer bench overhead``: the command line of it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from buffer.scripting import by_sha
from buffer.setting_sources import SettingsError

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "what it costs to stand in between: direct, through peers and through the gateway, in alternating rounds"
    parser = commands.add_parser(
        "overhead",
        help=text,
        description=f"{text[0].upper()}{text[1:]}. Needs two cores and redis-server; `make bench-peers` brings peers.",
        allow_abbrev=False,
    )
    parser.set_defaults(bench=run)
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="of each row (default: 5)")
    parser.add_argument("--paths", metavar="A,B", help="only these (default: all that are installed)")
    parser.add_argument("--rows", metavar="A,B", help="only these (default: all)")
    parser.add_argument(
        "--rest",
        type=float,
        default=0.05,
        metavar="SECONDS",
        help="pause between two measures, in which others may have the machine (default: 0.05)",
    )
    parser.add_argument("--svg", metavar="FILE", help="also draws the costs of all paths")
    parser.add_argument("--json", metavar="FILE", help="also writes all figures, each round's among them")


async def run(arguments: argparse.Namespace) -> int:
    """Prints the table; the exit code. Raises ``SettingsError``."""
    from bench.cost.claims import claims
    from bench.cost.plot import plot
    from bench.cost.result import SAID
    from bench.overhead import BenchError, run_overhead

    if arguments.rounds < 1:
        raise SettingsError("bench overhead: --rounds must be at least 1.")
    try:
        result = await run_overhead(arguments, {sha: script.name for sha, script in by_sha().items()})
    except BenchError as error:
        raise SettingsError(f"bench overhead: {error}") from None
    print(f"{SAID}\n{result.machine.told()}; medians of {result.rounds} rounds.\n\n{result.table()}")
    print(result.waiting_table())
    print("| ratio within this run | measured | bound | |\n| --- | ---: | ---: | --- |")
    print("\n".join(claim.told() for claim in claims(result)))
    for name, why in result.absent.items():
        print(f"Without {name}: {why}")
    if arguments.svg:
        _write(arguments.svg, plot(result))
    if arguments.json:
        _write(arguments.json, result.as_json())
    return 0


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"bench overhead: cannot write {file}: {error.strerror or error}.") from None
