"""Many seeds by hand: ``python -m tests.properties.run --seeds 100 --store redis7``."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from contextlib import ExitStack

from redis.exceptions import RedisError

from tests.properties import virtual
from tests.properties.broken import BROKEN, broken
from tests.properties.faults import FAULTS, SMALL_FAULTS
from tests.properties.installation import play
from tests.properties.ledger import Violation
from tests.properties.server import Server
from tests.rig.redis_server import bundled_binary, run_redis

JOBS = 35


def one_seed(url: str | None, seed: int, *, jobs: int = JOBS) -> Counter[str]:
    """Raises ``Violation``."""

    server = Server(url, f"properties-{seed}")
    server.empty()
    try:
        return virtual.run(lambda: play(server, seed, faulty=seed % 5 != 4, jobs=jobs)).counts
    finally:
        server.close()


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":
        # So that a seed is the same schedule each time.
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.properties.run", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    parser = argparse.ArgumentParser(description="Random schedules over the scripts, in virtual time.")
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=JOBS, help="a seed")
    parser.add_argument("--store", choices=("fake", "redis62", "redis7"), default="fake")
    parser.add_argument("--broken", choices=BROKEN, help="break a script so, and count the seeds that find it")
    parser.add_argument("--trace", action="store_true", help="show where in the test a violation was found")
    options = parser.parse_args()
    failed = []
    with ExitStack() as stack:
        url = None
        if options.store != "fake":
            binary = bundled_binary() if options.store == "redis62" else None
            url = stack.enter_context(run_redis(binary=binary)).url
        if options.broken:
            stack.enter_context(broken(options.broken))
        total: Counter[str] = Counter()
        for seed in range(options.first, options.first + options.seeds):
            began = time.monotonic()
            try:
                total += one_seed(url, seed, jobs=options.jobs)
                word = "clean"
            except (AssertionError, RedisError, ExceptionGroup) as found:
                failed.append(seed)
                what = "VIOLATION" if isinstance(found, Violation) else f"BROKEN ({type(found).__name__})"
                word = f"{what} {found}"
                if options.trace:
                    traceback.print_exception(found)
            print(f"{seed:>6} {time.monotonic() - began:>5.1f} s  {word}", flush=True)
    print(f"{options.seeds - len(failed)} of {options.seeds} clean on {options.store}; violations: {failed or 'none'}.")
    print(f"{total.pop('exchanges', 0)} exchanges with the store, {total.pop('checks', 0)} looks at the whole of it.")
    faults = {name: total.pop(name, 0) for name in (*FAULTS, *SMALL_FAULTS)}
    print("Faults: " + ", ".join(f"{count} {name}" for name, count in faults.items()))
    print("What became of it: " + ", ".join(f"{count} {name}" for name, count in sorted(total.items())))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
