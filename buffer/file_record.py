"""What is known of a file, and why one cannot be kept or read."""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

CHUNK = 256 * 1024
FILE_BYTES = 200 * 1024 * 1024
"""Most that a client may upload as one file."""
STORE_FILE_BYTES = 16 * 1024 * 1024
"""Most of it where there is no folder,"""
STORE_BYTES = 64 * 1024 * 1024
"""and of all files and results together."""
MOST_FILES = 10_000
"""Of one owner: as many as one list of them may have."""

Where = Literal["disk", "redis"]

SET_FILES = "set DOUBLEBUFFER_FILES to a folder that all gateways and batch workers share"


class NoRoom(Exception):  # noqa: N818
    """Something that cannot be kept. ``str()`` is one sentence that says why and what to do."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
        """413: it is too large; 429: there are too many; 503: nothing more fits at the moment; 507: the disk fails."""


STORE_FULL = f"Files and results take all of the {STORE_BYTES // 1024**2} MB that Redis keeps of them; delete some, or "
STORE_FULL += f"{SET_FILES}."


class DiskError(Exception):
    """The folder for files cannot be used. ``str()`` is one sentence."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"The folder for files cannot be written to: {error.strerror or 'it fails'}.")


class FileLost(Exception):  # noqa: N818
    """A file's record is there, its content is not. ``str()`` is one sentence."""

    def __init__(self) -> None:
        super().__init__("The content of this file is gone from where it was kept.")


class About(NamedTuple):
    """What whoever makes a file says of it."""

    filename: str
    purpose: str
    expires_at: int | None = None
    """Seconds since 1970; None: ``KEPT_S`` from now."""


class FileRecord(Struct, omit_defaults=True, kw_only=True):
    """What is known of a file."""

    id: str
    owner: str
    filename: str
    """The client's word for it; never a path of ours."""
    purpose: str
    bytes: int
    created_at: int
    """Seconds since 1970."""
    expires_at: int
    where: Where
