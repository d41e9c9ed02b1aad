"""``python -m tests.chaos``: real processes, many clients, a seeded stream of faults, and the account of each run."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from tests.chaos.run import Options, run_chaos


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="of load, for each seed")
    parser.add_argument("--seeds", type=int, default=3, help="how many runs, one after the other")
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--clients", type=int, default=100, help="at once")
    parser.add_argument("--folder", type=Path, help="where the folders with the logs are made")
    given = parser.parse_args()
    options = Options(seconds=given.seconds, clients=given.clients, folder=given.folder)
    passed = True
    for seed in range(given.seed, given.seed + given.seeds):
        account = asyncio.run(run_chaos(seed, options))
        print(account.table())
        if not account.passed or account.details():
            print(f"\n{account.details()}")
        verdict = "passed" if account.passed else "MISSED"
        print(f"\nseed {seed}: {verdict}; logs and traces in {account.folder}\n", flush=True)
        passed = passed and account.passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
