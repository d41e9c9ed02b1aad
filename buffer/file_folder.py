"""Files on disk. Everything here blocks, and is called in a thread.

``<folder>/<prefix>/content`` has the files, each named by its id and by when it expires, so that what nobody knows any
more is found; ``draft`` what is being written; ``work`` a folder for each open offline batch.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Iterable
from pathlib import Path

_CONTENT = re.compile(r"(file-[0-9a-f]{32})-([0-9]{1,12})")
_WORK = re.compile(r"batch_[0-9a-f]{32}")
DRAFT_S = 86_400.0
WORK_S = 3 * 86_400.0
"""What is older and still there was left by a process that died: an open batch is younger."""
ENDED_S = 3600.0
"""How long what an ended batch needed stays: a Redis that comes back a second older may ask for it once more."""


class Folder:
    """One folder, that all gateways and batch workers of a store share. Raises ``OSError`` wherever the disk does."""

    def __init__(self, root: Path, prefix: str) -> None:
        self._root = root / prefix
        self._content, self._draft, self._work = (self._root / name for name in ("content", "draft", "work"))

    def prepare(self) -> None:
        """Makes the folders where they are missing; nobody else may look into them."""
        for folder in (self._content, self._draft, self._work):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, id: str, expires_at: int) -> Path:
        return self._content / f"{id}-{expires_at}"

    def remove(self, id: str, expires_at: int) -> None:
        """If it is there."""
        self.path(id, expires_at).unlink(missing_ok=True)

    def draft(self) -> Draft:
        """A new file, not there yet for anybody."""
        self.prepare()
        return Draft(self._draft / secrets.token_hex(16))

    def work(self, batch: str, name: str) -> Path:
        """A file of an open batch's own. Raises ``ValueError`` for an id that is none."""
        if not _WORK.fullmatch(batch):
            raise ValueError("no id of an offline batch")
        folder = self._work / batch
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder / name

    def ended(self, batch: str) -> None:
        """From now on it is ``ENDED_S`` until what this batch needed may go."""
        if _WORK.fullmatch(batch) and (self._work / batch).is_dir():
            os.utime(self._work / batch)

    def works(self) -> list[tuple[str, float]]:
        """The batches of which there is something, and for how many seconds nothing new came to it."""
        now = time.time()
        return [(entry.name, _age_s(entry, now)) for entry in _entries(self._work) if _WORK.fullmatch(entry.name)]

    def clear(self, batch: str) -> None:
        """What this batch needed goes."""
        if _WORK.fullmatch(batch):
            shutil.rmtree(self._work / batch, ignore_errors=True)

    def overdue(self) -> list[str]:
        """Ids of the files that expired long enough ago for nobody to be at them, by their names."""
        found = []
        for entry in _entries(self._content):
            named = _CONTENT.fullmatch(entry.name)
            if named and int(named[2]) < time.time():
                found.append(named[1])
        return found

    def drop(self, ids: Iterable[str]) -> int:
        """Removes these files, whatever their names say of their ends; how many there were."""
        wanted, count = set(ids), 0
        for entry in _entries(self._content):
            named = _CONTENT.fullmatch(entry.name)
            if named and named[1] in wanted:
                Path(entry.path).unlink(missing_ok=True)
                count += 1
        return count

    def sweep_drafts(self) -> None:
        """Removes what was left half-written."""
        now = time.time()
        for entry in _entries(self._draft):
            if _age_s(entry, now) > DRAFT_S:
                Path(entry.path).unlink(missing_ok=True)


class Draft:
    """A file that is being written. Safe to be given up while a thread still writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)
        self._lock = threading.Lock()
        self._closed = False

    def write(self, data: bytes) -> None:
        with self._lock:
            if not self._closed:
                write_all(self._file.fileno(), data)

    def keep(self, path: Path) -> None:
        """It is whole: from now on it is at ``path``, also after a power cut."""
        with self._lock:
            os.fsync(self._file.fileno())
            self._file.close()
            self._closed = True
            os.replace(self._path, path)
            sync_folder(path.parent)

    def discard(self) -> None:
        """Nothing stays of it, unless it was kept."""
        with self._lock:
            self._closed = True
            self._file.close()
            self._path.unlink(missing_ok=True)


def write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def read_at(path: Path, offset: int, length: int) -> bytes:
    """As much as there is, ``length`` bytes at most."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while length > 0 and (part := os.pread(file, length, offset)):
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return b"".join(parts)
    finally:
        os.close(file)


def sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except FileNotFoundError:
        return []


def _age_s(entry: os.DirEntry[str], now: float) -> float:
    try:
        return now - entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return 0.0
