"""Ollama's client for Python: which models there are, and how they come and go."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.conformance.bench import PROMPT, Bench
from tests.conformance.ollama_rows import CLIENT
from tests.conformance.table import ALL, NOT_OLLAMA, row

NO_LENGTH = "without the context length, which the engine does not tell"


@row(CLIENT, "list", "GET /api/tags")
async def tags(b: Bench) -> None:
    names = {model.model for model in (await b.ollama.list()).models}
    assert names == {name if ":" in name else f"{name}:latest" for name in (b.model, b.embedder)}


@row(CLIENT, "ps", "GET /api/ps")
async def ps(b: Bench) -> str | None:
    assert (await b.ollama.ps()).models
    return (
        None if b.key == "ollama" else "tells what the engine serves, for as long as it does: nothing is ever unloaded"
    )


@row(CLIENT, "show", "POST /api/show")
async def show(b: Bench) -> str | None:
    told = await b.ollama.show(b.model)
    info: Any = told.modelinfo
    assert "completion" in (told.capabilities or [])
    length = info.get(f"{info['general.architecture']}.context_length")
    if b.key == "openai":
        assert length is None
        return NO_LENGTH
    assert length > 0
    return None


@row(CLIENT, "pull(one that is there)", "POST /api/pull")
async def pull_there(b: Bench) -> None:
    assert (await b.ollama.pull(b.model)).status == "success"
    told = [part.status async for part in await b.ollama.pull(b.model, stream=True)]
    assert (told[0], told[-1]) == ("pulling manifest", "success")


@row(CLIENT, "pull", "POST /api/pull", refused=NOT_OLLAMA)
async def pull(b: Bench) -> None:
    assert (await b.ollama.pull("new:1b")).status == "success"
    assert "new:1b" in {model.model for model in (await b.ollama.list()).models}
    await b.ollama.delete("new:1b")


@row(CLIENT, "pull(stream=True)", "POST /api/pull", refused=NOT_OLLAMA)
async def pull_stream(b: Bench) -> None:
    told = [part async for part in await b.ollama.pull("new:2b", stream=True)]
    assert [part.completed for part in told if part.total] == [40, 100]
    assert told[-1].status == "success"
    await b.ollama.delete("new:2b")


@row(CLIENT, "push", "POST /api/push", refused=NOT_OLLAMA)
async def push(b: Bench) -> None:
    assert (await b.ollama.push(b.model)).status == "success"


@row(CLIENT, "push(stream=True)", "POST /api/push", refused=NOT_OLLAMA)
async def push_stream(b: Bench) -> None:
    told = [part.status async for part in await b.ollama.push(b.model, stream=True)]
    assert (told[0], told[-1]) == ("retrieving manifest", "success")


@row(CLIENT, "create", "POST /api/create", refused=NOT_OLLAMA)
async def create(b: Bench) -> None:
    assert (await b.ollama.create("made:1b", from_=b.model, system="Be brief.")).status == "success"
    await b.ollama.delete("made:1b")


@row(CLIENT, "create(stream=True)", "POST /api/create", refused=NOT_OLLAMA)
async def create_stream(b: Bench) -> None:
    told = [part.status async for part in await b.ollama.create("made:2b", from_=b.model, stream=True)]
    assert told[-1] == "success"
    await b.ollama.delete("made:2b")


@row(CLIENT, "create_blob", "POST /api/blobs/{digest}", refused=NOT_OLLAMA)
async def blob(b: Bench) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "model"
        path.write_bytes(b"GGUF" * 1000)
        assert (await b.ollama.create_blob(path)).startswith("sha256:")


@row(CLIENT, "copy", "POST /api/copy", refused=NOT_OLLAMA)
async def copy(b: Bench) -> None:
    assert (await b.ollama.copy(b.model, "copied:1b")).status == "success"
    await b.ollama.delete("copied:1b")


@row(CLIENT, "delete", "DELETE /api/delete", refused=NOT_OLLAMA)
async def delete(b: Bench) -> None:
    if b.key == "ollama":
        await b.ollama.copy(b.model, "gone:1b")
    assert (await b.ollama.delete("gone:1b")).status == "success"
    assert "gone:1b" not in {model.model for model in (await b.ollama.list()).models}


@row(CLIENT, "systemone", "POST /v1/systemone", refused=ALL)
async def systemone(b: Bench) -> None:
    await b.ollama.systemone(b.model, PROMPT, {"q": {"type": "noul", "instructions": "Is it so?"}})
