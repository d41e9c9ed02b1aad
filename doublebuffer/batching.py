"""``doublebuffer batch``: offline batches for people without an SDK."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import _SubParsersAction

STOPPED = 130
WRONG = 2
_ABOUT = (
    "Has the requests of a file answered by a gateway that is running, as an offline batch. A line whose custom_id is "
    "in the output already is not asked again, so the same command goes on where it was stopped; meanwhile the batch "
    "runs on. What failed is in a file of its own, and is asked again the next time."
)


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "offline batches by hand: run IN.jsonl -o OUT.jsonl"
    parser = commands.add_parser("batch", help=text, description=text, allow_abbrev=False)
    actions = parser.add_subparsers(dest="action", required=True, metavar="run")
    run = actions.add_parser("run", help="answers the requests of a file", description=_ABOUT, allow_abbrev=False)
    run.add_argument("input", metavar="IN.jsonl", help="one request a line, as OpenAI's Batch API has them")
    run.add_argument("-o", "--output", required=True, metavar="OUT.jsonl", help="where the answers are added")
    run.add_argument("--errors", metavar="FILE", help="what failed (default: OUT.errors.jsonl)")
    run.add_argument("--url", default="http://127.0.0.1:11435", help="of the gateway (default: %(default)s)")
    run.add_argument("--key", help="for a gateway that asks for one (default: OPENAI_API_KEY, if that is set)")


def run(arguments: argparse.Namespace) -> int:
    """0: all is answered; 1: something failed; 2: it could not be done, and one sentence says why."""
    from doublebuffer.batch_calls import BatchRunError
    from doublebuffer.batch_run import BatchRun

    key = arguments.key or os.environ.get("OPENAI_API_KEY", "")
    errors = arguments.errors or _errors_of(arguments.output)
    try:
        return BatchRun(arguments.url, key, arguments.input, arguments.output, errors).run()
    except BatchRunError as error:
        print(f"doublebuffer: {error}", file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        print("\nThe batch runs on; the same command waits for it again.", file=sys.stderr)
        return STOPPED


def _errors_of(output: str) -> str:
    return f"{output.removesuffix('.jsonl')}.errors.jsonl"
