"""``doublebuffer study``: the scheduling policies compared in virtual time."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from buffer.setting_sources import SettingsError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from simulate.study import Case
    from simulate.study_rows import Row
    from simulate.workload import Arrival

SAID = "SIMULATED: virtual time on a model of an engine, never a measurement of one."


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "the scheduling policies compared in virtual time, on a model of an engine"
    parser = commands.add_parser(
        "study",
        help=text,
        description=f"{text[0].upper()}{text[1:]}. Without --workload or --trace: all of the usual ones.",
        allow_abbrev=False,
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--workload", choices=("chat", "mix", "mix85k", "refusal"), help="who asks for how much")
    what.add_argument(
        "--trace", metavar="FILE", help="a real workload: CSV with arrival_s, prompt_tokens and output_tokens"
    )
    parser.add_argument("--profile", help="rtx4090-ollama, rtx4090-vllm or h100-vllm (default: the workload's usual)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--load",
        type=float,
        action="append",
        metavar="X",
        help="share of what direct sends can sustain; may be given several times (default: the workload's usual)",
    )
    how.add_argument(
        "--clients", type=int, action="append", metavar="N", help="a closed loop of N; may be given several times"
    )
    parser.add_argument("--slots", type=int, metavar="N", help="sequences side by side (default: the profile's)")
    parser.add_argument("--num-ctx", type=int, metavar="N", help="longest prompt and answer together, in tokens")
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="runs of each, with seeds 1 to N (default: 1)"
    )
    parser.add_argument(
        "--requests",
        type=int,
        default=0,
        metavar="N",
        help="of a run (default: 4000, of a trace 1500, in a closed loop 1000)",
    )
    parser.add_argument("--json", action="store_true", help="rows as JSON instead of a table")
    parser.add_argument("--html", metavar="FILE", help="also writes plots over load and time to a page of its own")


def run(arguments: argparse.Namespace) -> None:
    """Prints the table. Raises ``SettingsError``."""
    from simulate.study import study_all
    from simulate.study_table import block

    cases = cases_of(arguments)
    if arguments.html and not Path(arguments.html).absolute().parent.is_dir():
        raise SettingsError(f"--html: cannot write {arguments.html}: its folder does not exist.")
    processes = os.cpu_count() or 1
    rows: list[Row] = []
    if not arguments.json:
        print(f"{SAID}\n", flush=True)
    try:
        for _, _, of_it in study_all(cases, arguments.seeds, processes=processes):
            rows += of_it
            if not arguments.json:
                print(block(of_it), flush=True)
        if arguments.html:
            from simulate.study_page import page

            Path(arguments.html).write_text(page(cases, rows, processes=processes), encoding="utf-8")
            print(f"The plots are in {arguments.html}.", file=sys.stderr)
    except ValueError as error:
        raise SettingsError(f"study: {error}.") from None
    except OSError as error:
        raise SettingsError(f"--html: cannot write {arguments.html}: {error.strerror or error}.") from None
    if arguments.json:
        print(json.dumps([_plain(row) for row in rows], indent=1))


def _plain(row: Row) -> dict[str, object]:
    """JSON knows no NaN."""
    return {
        key: None if isinstance(value, float) and math.isnan(value) else value for key, value in asdict(row).items()
    }


def cases_of(arguments: argparse.Namespace) -> list[Case]:
    """What the flags ask for. Raises ``SettingsError``."""
    from simulate.cost import PROFILES
    from simulate.study import TRACE_LOADS, USUAL, Case

    loads, clients = arguments.load or [], arguments.clients or []
    if arguments.seeds < 1 or arguments.requests < 0 or any(count < 1 for count in clients):
        raise SettingsError("study: --seeds and --clients must be at least 1, and --requests not negative.")
    if not all(load > 0 and math.isfinite(load) for load in loads):
        raise SettingsError("study: --load must be a number above 0.")
    if arguments.profile is not None and arguments.profile not in PROFILES:
        raise SettingsError(f"study: unknown --profile {arguments.profile!r}; there are {', '.join(PROFILES)}.")
    trace: tuple[Arrival, ...] = ()
    workload: str | None = arguments.workload
    if arguments.trace:
        trace = _trace(Path(arguments.trace))
        workload = Path(arguments.trace).stem
    if workload is None and (loads or clients):
        raise SettingsError("study: --load and --clients need a --workload or a --trace.")
    likes = [case for case in USUAL if arguments.profile in (None, case.profile) and workload in (None, case.workload)]
    if workload is not None:
        profile = arguments.profile or (likes[0].profile if likes else "rtx4090-vllm")
        likes = [case for case in likes if case.profile == profile]
        like = likes[0] if likes else Case(workload, profile)
        if loads or clients or not likes:
            wanted = loads or ([] if clients else list(TRACE_LOADS))
            likes = [replace(like, load=load, clients=0) for load in wanted]
            likes += [replace(like, load=0.0, clients=count) for count in clients]
    cases = [
        replace(
            like,
            requests=arguments.requests,
            slots=like.slots if arguments.slots is None else arguments.slots,
            num_ctx=like.num_ctx if arguments.num_ctx is None else arguments.num_ctx,
            trace=trace,
        )
        for like in likes
    ]
    if not cases:
        raise SettingsError(f"study: none of the usual workloads is on {arguments.profile}; name one with --workload.")
    for case in cases:
        try:
            case.engine_profile()
        except ValueError as error:
            raise SettingsError(f"study: {error}.") from None
    return cases


def _trace(path: Path) -> tuple[Arrival, ...]:
    from simulate.workload import TraceError, read_trace

    try:
        return tuple(read_trace(path))
    except TraceError as error:
        raise SettingsError(f"--trace: {error}.") from None
    except OSError as error:
        raise SettingsError(f"--trace: cannot read {path}: {error.strerror or error}.") from None
