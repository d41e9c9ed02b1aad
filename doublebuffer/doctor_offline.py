"""Is the folder for files usable, and does somebody run the offline batches that there are."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from buffer.file_folder import Folder
from buffer.files import Files
from buffer.offline import Offline
from buffer.settings import Settings
from buffer.store import Store
from doublebuffer.doctor_report import Finding, fine, wrong

FILES, BATCHES = "files", "offline batches"
LONGEST_S = 10.0
"""How long a batch may be nobody's: they are looked for every second."""


async def offline_findings(settings: Settings, store: Store) -> list[Finding]:
    """Raises ``StoreUnavailable``."""
    found = [await _folder(settings.files, store.prefix)] if settings.files else []
    if waiting := await _waiting(Offline(store, Files(store, settings.files))):
        text = "nobody runs the one that there is" if waiting == 1 else f"nobody runs {waiting} of them"
        found.append(wrong(BATCHES, text, "start `doublebuffer batch-worker`, and see in its log why it does not"))
    return found


async def _folder(folder: str, prefix: str) -> Finding:
    try:
        await asyncio.to_thread(_try, Folder(Path(folder), prefix))
    except OSError as error:
        return wrong(
            FILES,
            f"{folder} cannot be written to: {error.strerror or 'it fails'}",
            "make that folder, and let the user that Doublebuffer runs as write to it",
        )
    return fine(FILES, f"{folder} takes files")


def _try(folder: Folder) -> None:
    draft = folder.draft()
    try:
        draft.write(b"x")
    finally:
        draft.discard()


async def _waiting(offline: Offline) -> int:
    """How many open batches nobody runs."""
    latest = time.time() - LONGEST_S
    batches = [await offline.read(id) for id in await offline.idle_ids()]
    return sum(batch is not None and batch.open and batch.kept.created_at < latest for batch in batches)
