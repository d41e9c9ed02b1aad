"""Rows of the table: a method of a client, how it is tried, and in front of which back ends it has to be refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

import anthropic
import ollama
import openai

from tests.conformance.bench import COLUMNS, Bench

Check = Callable[[Bench], Awaitable[str | None]]
T = TypeVar("T", bound=Check)

ALL = frozenset(COLUMNS)
NOT_OLLAMA = ALL - {"ollama"}
ONE_CHECK_S = 60.0

_REFUSALS = (400, 404, 405, 409, 422, 501)
"""Statuses of a refusal for good. Anything else is trouble."""


@dataclass(frozen=True)
class Row:
    client: str
    method: str
    endpoint: str
    check: Check
    """Raises what the client raises, or ``AssertionError``. What it returns is a limit."""
    refused: Collection[str] = ()


@dataclass(frozen=True)
class Cell:
    client: str
    method: str
    endpoint: str
    text: str
    """``works``, ``refused: …``, ``limit: …``, or ``FAILED: …``."""

    @property
    def failed(self) -> bool:
        return not self.text.startswith(("works", "refused: ", "limit: "))


ROWS: list[Row] = []


def row(client: str, method: str, endpoint: str, *, refused: Collection[str] = ()) -> Callable[[T], T]:
    """Puts a check into the table. ``refused``: the kinds of back end in front of which it has to be."""

    def add(check: T) -> T:
        ROWS.append(Row(client, method, endpoint, check, refused))
        return check

    return add


async def try_row(row: Row, bench: Bench) -> Cell:
    """What comes of a row on a bench."""
    return Cell(row.client, row.method, row.endpoint, await _text(row, bench))


async def _text(row: Row, bench: Bench) -> str:
    try:
        async with asyncio.timeout(ONE_CHECK_S):
            limit = await row.check(bench)
    except (openai.APIStatusError, anthropic.APIStatusError, ollama.ResponseError) as error:
        return verdict(*_refusal(error), expected=bench.key in row.refused)
    except Exception as error:  # noqa: BLE001 - whatever a client stumbles over is the row's result
        return f"FAILED: {type(error).__name__}: {error}"
    if bench.key in row.refused:
        return "FAILED: expected to be refused"
    return f"limit: {limit}" if limit else "works"


def verdict(status: int, sentence: str, *, expected: bool) -> str:
    if expected and status in _REFUSALS and sentence:
        return f"refused: {' '.join(sentence.split())}"
    return f"FAILED: status {status}: {sentence}"


def _refusal(error: Any) -> tuple[int, str]:
    """Status and sentence of a client's error."""
    body: Any = error.error if isinstance(error, ollama.ResponseError) else error.body
    if isinstance(body, dict):
        body = body.get("error", body)
        body = body.get("message", "") if isinstance(body, dict) else body
    return error.status_code, body if isinstance(body, str) else str(error)


def page(columns: dict[str, list[Cell]]) -> str:
    """The document. ``columns``: the cells of each kind of back end, all in the same order."""
    lines = [_HEAD]
    for client in dict.fromkeys(cell.client for cell in next(iter(columns.values()))):
        lines += ["", f"## {client}", ""]
        lines.append("| " + " | ".join(["method", "endpoint", *(COLUMNS[key] for key in columns)]) + " |")
        lines.append("| --- " * (2 + len(columns)) + "|")
        for cells in zip(*columns.values(), strict=True):
            if cells[0].client == client:
                assert len({(cell.method, cell.endpoint) for cell in cells}) == 1
                told = [f"`{cells[0].method}`", f"`{cells[0].endpoint}`", *(cell.text for cell in cells)]
                lines.append("| " + " | ".join(text.replace("|", "\\|") for text in told) + " |")
    return "\n".join(lines) + "\n"


def cells_of(text: str) -> dict[str, list[Cell]]:
    """The cells of a document, by kind of back end."""
    found: dict[str, list[Cell]] = {key: [] for key in COLUMNS}
    client = ""
    for line in text.splitlines():
        if line.startswith("## "):
            client = line.removeprefix("## ")
        if line.startswith("| `"):
            method, endpoint, *told = (part.strip() for part in line.strip("|").replace("\\|", "\0").split("|"))
            for key, one in zip(COLUMNS, told, strict=True):
                name = method.strip("`").replace("\0", "|")
                found[key].append(Cell(client, name, endpoint.strip("`"), one.replace("\0", "|")))
    return found


_HEAD = """\
# Compatibility

The official clients, as they come, in front of every kind of back end: each method that they have for these endpoints,
tried through a gateway and a worker in processes of their own. This page is made by the conformance tests
(`make compatibility`), which fail when it is not what they find.

`works`: the client gets what it would get from its own server. `refused`: the method is answered with that sentence, as
an error of the client's own kind. `limit`: it works, but for what is said. The first four engines are scripted, and as
strict about what they are sent as the servers that they stand for; the last is llama.cpp's own server with a model so
small that it talks nonsense, so that only the form of its answers is checked."""
