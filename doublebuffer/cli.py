"""The command line: which command, with which settings; and what a person reads when it cannot start."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from typing import Any

import uvloop

from buffer.setting_sources import SettingsError
from doublebuffer import VERSION, batching, benching, dead, kept_answers, simulating, studying, top
from doublebuffer.flags import add_setting_flags, settings_of
from doublebuffer.logs import set_up_logs

WRONG_SETTING = 2
GARBAGE = (20_000, 20, 50)
"""How many new objects make the collector look for cycles. A request makes hundreds and leaves none: at Python's own
700, looking for them is a tenth of what a chat costs."""

_COMMANDS = {
    "up": "gateway and worker in one process; finds local engines, and needs no Redis",
    "gateway": "the HTTP ingress alone; needs REDIS_URL",
    "worker": "one worker alone; needs REDIS_URL. Start as many as you like",
    "batch-worker": "runs offline batches, in processes of their own; needs REDIS_URL, and no Cluster",
    "doctor": "checks Redis, back ends, models and settings; exits with 0, or with 1 and what to do",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; the exit code. 2: a setting is wrong, and one sentence on standard error names it."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parsed = _parser().parse_args(arguments)
    try:
        code = _run(parsed, arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read this has gone, as `head` does. At the end of the process Python would try to write once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except SettingsError as error:
        return _refuse(error)
    except BaseExceptionGroup as group:
        wrong = _first_settings_error(group)
        if wrong is None:
            raise
        return _refuse(wrong)


def _refuse(error: SettingsError) -> int:
    print(f"doublebuffer: {error}", file=sys.stderr)
    return WRONG_SETTING


def _first_settings_error(group: BaseExceptionGroup[BaseException]) -> SettingsError | None:
    """A wrong setting may come to light inside a task group."""
    wrong = group.subgroup(SettingsError)
    while isinstance(wrong, BaseExceptionGroup):
        first = wrong.exceptions[0]
        if isinstance(first, SettingsError):
            return first
        wrong = first if isinstance(first, BaseExceptionGroup) else None
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="doublebuffer",
        description="A queueing gateway for people who run their own models.",
        epilog="`doublebuffer COMMAND --help` tells a command's flags.",
    )
    parser.add_argument("--version", action="version", version=f"doublebuffer {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in _COMMANDS.items():
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
        add_setting_flags(command)
        if name == "gateway":
            command.add_argument("--descriptor", type=int, help=argparse.SUPPRESS)
        if name == "doctor":
            command.add_argument("--json", action="store_true", help="print the findings as JSON")
    batching.add_parser(commands)
    dead.add_parser(commands)
    kept_answers.add_parser(commands)
    top.add_parser(commands)
    simulating.add_parser(commands)
    studying.add_parser(commands)
    benching.add_parser(commands)
    return parser


def _run(parsed: argparse.Namespace, arguments: list[str]) -> int:
    """Imports lie inside, so that ``--help`` and a wrong setting answer at once."""
    if parsed.command == "simulate":
        return _in_loop(simulating.run(parsed))
    if parsed.command == "study":
        studying.run(parsed)
        return 0
    if parsed.command == "bench":
        return _in_loop(benching.run(parsed))
    if parsed.command == "batch":
        return batching.run(parsed)
    if parsed.command == "doctor":
        from doublebuffer.doctor import run_doctor

        return _in_loop(run_doctor(lambda: settings_of(parsed), as_json=parsed.json))
    settings = settings_of(parsed)
    set_up_logs(settings)
    if parsed.command == "dead":
        return _in_loop(dead.run_dead(parsed, settings))
    if parsed.command == "cache":
        return _in_loop(kept_answers.run_cache(parsed, settings))
    if parsed.command == "top":
        return _in_loop(top.run_top(parsed, settings))
    if parsed.command == "worker":
        from doublebuffer.draining import run_worker

        return _in_loop(run_worker(settings))
    if parsed.command == "batch-worker":
        from doublebuffer.counted import counted_in_a_folder

        with counted_in_a_folder(wanted=settings.metrics_port > 0):
            from doublebuffer.batch_worker import run_batch_worker

            return run_batch_worker(settings)
    if parsed.command == "gateway":
        from doublebuffer.ingress import run_gateway, run_gateway_process

        if parsed.descriptor is not None:
            return _in_loop(run_gateway_process(settings, parsed.descriptor))
        return _in_loop(run_gateway(settings, arguments))
    from doublebuffer.counted import counted_together

    with counted_together(settings):
        from doublebuffer.up import run_up

        return _in_loop(run_up(settings, arguments[1:]))


def _in_loop(command: Coroutine[Any, Any, int | None]) -> int:
    gc.set_threshold(*GARBAGE)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(command) or 0
