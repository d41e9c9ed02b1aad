"""The whole table: every row on a bench, those of Python and those of Node."""

from __future__ import annotations

from tests.conformance import (  # noqa: F401 - each puts its rows into the table
    anthropic_rows,
    ollama_models,
    ollama_rows,
    openai_chats,
    openai_completions,
    openai_files,
    openai_rest,
)
from tests.conformance.bench import run_bench
from tests.conformance.node_clients import node_cells
from tests.conformance.table import ROWS, Cell, try_row

ORDER = (openai_chats.CLIENT, ollama_rows.CLIENT, anthropic_rows.CLIENT)


async def column(key: str) -> list[Cell]:
    """The cells of one kind of back end, in the order of the page."""
    async with run_bench(key) as bench:
        cells = [await try_row(row, bench) for client in ORDER for row in ROWS if row.client == client]
        return cells + await node_cells(bench)
