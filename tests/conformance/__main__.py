"""``python -m tests.conformance`` writes docs/compatibility.md anew; exit code 1 if a cell is a failure.

With names of columns it prints what these would hold, and writes nothing.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.conformance.bench import COLUMNS
from tests.conformance.suite import column
from tests.conformance.table import Cell, page

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"


async def _main(wanted: list[str]) -> int:
    columns: dict[str, list[Cell]] = {}
    for key in wanted or COLUMNS:
        columns[key] = await column(key)
        failed = [cell for cell in columns[key] if cell.failed]
        print(f"{COLUMNS[key]}: {len(columns[key])} cells, {len(failed)} failures", file=sys.stderr)
        for cell in columns[key] if wanted else failed:
            print(f"  {cell.client} {cell.method}: {cell.text}", file=sys.stderr)
    if not wanted:
        PAGE.write_text(page(columns), encoding="utf-8")
    return int(any(cell.failed for cells in columns.values() for cell in cells))


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(sys.argv[1:])))
