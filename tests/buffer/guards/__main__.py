"""``python -m tests.buffer.guards``: takes each guard out of its script, and shows that its test fails then."""

from __future__ import annotations

import argparse
import asyncio
import logging
import time
from contextlib import ExitStack

from redis.exceptions import ResponseError

from tests.buffer.guards.lines import unguarded
from tests.buffer.guards.mutants import Mutant, NotThere, mutants
from tests.buffer.guards.taking_out import run, survives
from tests.rig.redis_server import bundled_binary, run_redis


async def _verdict(url: str | None, mutant: Mutant) -> str:
    if failure := await run(url, mutant.test):
        return f"FAILS WITH THE GUARD IN ({failure.splitlines()[0]})"
    try:
        return "SURVIVES" if await survives(url, mutant) else "caught"
    except NotThere as error:
        return f"NOT THERE ({error.args[0]})"
    except ResponseError as error:
        return f"UNREADABLE ({error})"


def main() -> int:
    parser = argparse.ArgumentParser(description="Takes each guard out of its script; its test must fail then.")
    parser.add_argument("--store", choices=("fake", "redis62", "redis7"), default="redis7")
    parser.add_argument("--script", help="only the guards of this file, without .lua")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # of scripts without their guards much is to be said
    began = time.monotonic()
    fake = options.store == "fake"
    chosen = [one for one in mutants() if options.script in (None, one.file) and not (fake and one.servers_only)]
    caught = 0
    with ExitStack() as stack:
        url = None
        if not fake:
            binary = bundled_binary() if options.store == "redis62" else None
            url = stack.enter_context(run_redis(binary=binary)).url
        for mutant in chosen:
            verdict = asyncio.run(_verdict(url, mutant))
            caught += verdict == "caught"
            print(f"{verdict:<9} {mutant.name}\n          {mutant.test.__name__}")
    lines = unguarded() if options.script is None else []
    for line in lines:
        print(f"NO TEST   {line}")
    seconds = time.monotonic() - began
    print(f"{caught} of {len(chosen)} guards caught, {len(lines)} without a test, {seconds:.0f} s on {options.store}.")
    return 0 if caught == len(chosen) and not lines else 1


if __name__ == "__main__":
    raise SystemExit(main())
