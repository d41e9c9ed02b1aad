"""Many seeds by hand: ``python -m tests.properties.run --seeds 100 --store redis``."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from contextlib import ExitStack

from redis.exceptions import RedisError

from buffer.store import open_store
from tests.properties.installation import play
from tests.properties.ledger import Violation
from tests.rig.redis_server import run_redis

JOBS = 45
SHOWN = ("calls", "virtual s", "done", "failed", "cancelled", "expired", "full", "unserved", "left")
ALSO_SHOWN = ("taken over", "caught up", "taken back", "submitted anew", "new inbox")


async def one_seed(url: str | None, seed: int, *, jobs: int = JOBS) -> Counter[str]:
    """Raises ``Violation``."""
    store = await open_store(url, prefix=f"properties-{seed}-{time.monotonic_ns()}")
    try:
        return (await play(store, seed, faulty=seed % 5 != 4, jobs=jobs)).counts
    finally:
        await store.aclose()


def main() -> int:
    parser = argparse.ArgumentParser(description="Random schedules over the scripts, in virtual time.")
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--store", choices=("fake", "redis"), default="fake")
    parser.add_argument("--binary", help="redis-server to run; unset: the one on PATH")
    options = parser.parse_args()
    failed = 0
    columns = (*SHOWN, *ALSO_SHOWN)
    print(f"{'seed':>6} {'real s':>6}  " + " ".join(f"{name:>{len(name)}}" for name in columns))
    with ExitStack() as stack:
        url = None
        if options.store == "redis":
            url = stack.enter_context(run_redis(binary=options.binary)).url
        total: Counter[str] = Counter()
        for seed in range(options.first, options.first + options.seeds):
            began = time.monotonic()
            try:
                counts = asyncio.run(one_seed(url, seed))
            except (Violation, RedisError, LookupError) as found:
                failed += 1
                what = "VIOLATION" if isinstance(found, Violation) else f"BROKEN ({type(found).__name__})"
                print(f"{seed:>6} {time.monotonic() - began:>6.1f}  {what} {found}", flush=True)
                continue
            total += counts
            row = " ".join(f"{counts[name]:>{len(name)}}" for name in columns)
            print(f"{seed:>6} {time.monotonic() - began:>6.1f}  {row}", flush=True)
        print(f"{options.seeds - failed} of {options.seeds} clean on {options.store}. {dict(sorted(total.items()))}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
