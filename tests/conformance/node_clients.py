"""The official clients of Node, driven by ``node/clients.mjs`` in a process of its own."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

from tests.conformance.bench import Bench
from tests.conformance.table import Cell, verdict

HERE = Path(__file__).parent / "node"
LONGEST_S = 300.0


async def node_cells(bench: Bench) -> list[Cell]:
    """Raises ``RuntimeError`` on a machine without Node, or where its clients are not installed."""
    node = shutil.which("node")
    if node is None:
        raise RuntimeError("The conformance tests need Node 20 or newer (Debian: apt-get install nodejs npm).")
    if not (HERE / "node_modules").is_dir():
        raise RuntimeError(f"The clients for Node are not installed: run `npm ci` in {HERE}, or `make test`.")
    facts = {"key": bench.key, "url": bench.url, "model": bench.model, "embedder": bench.embedder}
    child = await asyncio.create_subprocess_exec(
        *(node, str(HERE / "clients.mjs"), json.dumps(facts)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(LONGEST_S):
            out, err = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode != 0:
        raise RuntimeError(f"node ended with {child.returncode}:\n{err.decode()[-2000:]}")
    return [
        Cell(
            row["client"],
            row["method"],
            row["endpoint"],
            verdict(row["status"], row["sentence"], expected=row["refused"]) if "status" in row else row["text"],
        )
        for row in map(json.loads, out.splitlines())
    ]
