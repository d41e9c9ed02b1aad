"""docs/compatibility.md is what the clients find, and has no failure in it and no gap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anthropic
import ollama
import openai
import pytest

from tests.conformance.__main__ import PAGE
from tests.conformance.bench import COLUMNS
from tests.conformance.suite import ORDER, column
from tests.conformance.table import ROWS, Cell, cells_of, page

ELSEWHERE = {"web_search", "web_fetch"}
"""Methods that go to ollama.com, whatever server their client has."""
SOCKETS = {"responses.connect"}
"""Methods that speak no HTTP."""


@pytest.mark.timeout(400)
@pytest.mark.parametrize("key", COLUMNS)
async def test_what_the_clients_find_is_what_the_page_says(key: str) -> None:
    found = await column(key)
    assert [cell for cell in found if cell.failed] == []
    assert found == cells_of(PAGE.read_text(encoding="utf-8"))[key], "run `make compatibility`"


def test_the_page_is_nothing_but_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    columns = cells_of(text)
    assert page(columns) == text, "run `make compatibility`"
    cells = [cell for column in columns.values() for cell in column]
    assert [cell for cell in cells if cell.failed] == []
    here = [(row.client, row.method, row.endpoint) for client in ORDER for row in ROWS if row.client == client]
    for told in columns.values():
        assert [(cell.client, cell.method, cell.endpoint) for cell in told][: len(here)] == here
        assert len({(cell.client, cell.method) for cell in told}) == len(told)


def test_the_page_can_hold_any_sentence() -> None:
    sentence = "refused: a | b `c`, d."
    columns = {key: [Cell("one", "f(a | b)", "GET /", sentence), Cell("two", "g", "GET /", "works")] for key in COLUMNS}
    assert cells_of(page(columns)) == columns


def _methods(thing: Any, within: str = "") -> Iterable[str]:
    """The names of a resource's methods, as the table writes them."""
    for name in dir(thing):
        if not name.startswith(("_", "with_")) and callable(getattr(thing, name)):
            yield f"{within}{name}"


def test_no_method_of_a_client_is_missing() -> None:
    tried = {client: {row.method.partition("(")[0] for row in ROWS if row.client == client} for client in ORDER}
    gpt, claude = openai.OpenAI(api_key="x"), anthropic.Anthropic(api_key="x")
    wanted: dict[str, set[str]] = dict(zip(ORDER, (set(), set(), set()), strict=True))
    for name in (
        *("chat.completions", "chat.completions.messages", "completions", "embeddings", "models"),
        *("responses", "responses.input_items", "responses.input_tokens", "files", "batches"),
    ):
        wanted[ORDER[0]] |= set(_methods(_resource(gpt, name), f"{name}."))
    wanted[ORDER[1]] = set(_methods(ollama.AsyncClient())) - {"close"} - ELSEWHERE
    for name in ("messages", "messages.batches", "models", "beta.messages"):
        wanted[ORDER[2]] |= set(_methods(_resource(claude, name), f"{name}."))
    assert {client: wanted[client] - tried[client] - SOCKETS for client in ORDER} == {client: set() for client in ORDER}


def _resource(client: Any, name: str) -> Any:
    for part in name.split("."):
        client = getattr(client, part)
    return client
