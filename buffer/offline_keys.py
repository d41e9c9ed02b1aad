"""Names and lifetimes of what files and offline batches keep in Redis.

All of them begin with one hash tag that no pool can have, so a script may build any of them from the base, and a
Cluster has them on one node.
"""

from __future__ import annotations

from hashlib import blake2b

DAY_S = 86_400
KEPT_S = 30 * DAY_S
"""How long a file is kept where its owner says nothing; and the record of an offline batch, from its end."""
WINDOW_S = DAY_S
"""How long an offline batch may take."""
RECORD_S = WINDOW_S + KEPT_S
"""Lifetime of an open batch's record."""
READ_S = 2 * DAY_S
"""How long a file stays at least that an offline batch reads. Scripts know the same as ``WORK_S``, the lifetime of what
an offline batch needs only until its end, begun anew by each settle."""
RUNNERS_S = 60
UPLOAD_S = 3600
"""Lifetime of pieces of a file that is not whole yet."""


class OfflineKeys:
    """Names of the keys of files and offline batches."""

    def __init__(self, prefix: str = "doublebuffer") -> None:
        self.base = f"{prefix}:offline:{{all}}:"

    def file(self, id: str) -> str:
        """JSON ``FileRecord``, with the file's lifetime."""
        return f"{self.base}file:{id}"

    def data(self, id: str) -> str:
        """List: the pieces of a file that is kept in Redis, all of one size but the last."""
        return f"{self.base}data:{id}"

    def readers(self, id: str) -> str:
        """Set: the open batches that read a file."""
        return f"{self.base}readers:{id}"

    def files(self, owner: str) -> str:
        """Sorted set, all scores 0: an owner's files. Their ids begin with when they came."""
        return f"{self.base}files:{digest(owner)}"

    @property
    def room(self) -> str:
        """Hash: file or batch → bytes that are kept of it in Redis; ``sum``: of all. Its companion ``room:ends`` is a
        sorted set: the same → until when, µs.
        """
        return f"{self.base}room"

    def batch(self, id: str) -> str:
        """Hash: an offline batch; see ``buffer.offline_record``."""
        return f"{self.base}batch:{id}"

    def batches(self, owner: str) -> str:
        """Sorted set, all scores 0: an owner's offline batches. Their ids begin with when they came."""
        return f"{self.base}batches:{digest(owner)}"

    @property
    def open(self) -> str:
        """Sorted set: open batches → when they came, µs. ``open:<owner>`` is a set of an owner's."""
        return f"{self.base}open"

    @property
    def runners(self) -> str:
        """Sorted set: processes that run batches → until when they are known to, in seconds since 1970."""
        return f"{self.base}runners"

    def done(self, id: str) -> str:
        """Bitmap: lines that are settled; line 1 is bit 0."""
        return f"{self.base}done:{id}"

    def lines(self, id: str) -> str:
        """String: where the lines of a batch's file are, 12 bytes each; where there is no folder for files."""
        return f"{self.base}lines:{id}"

    def results(self, id: str, *, ok: bool) -> str:
        """List, one entry a line that was settled: the line of the output file or of the error file, or where it is in
        the folder for files.
        """
        return f"{self.base}{'output' if ok else 'errors'}:{id}"


def digest(owner: str) -> str:
    """What stands for an owner in a key's name."""
    return blake2b(owner.encode(), digest_size=16).hexdigest()
