"""Counters of several processes in one folder, of which any of them tells the sum."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from buffer.settings import Settings
from buffer.worker_range import worker_range

COUNTERS = "PROMETHEUS_MULTIPROC_DIR"


@contextmanager
def counted_together(settings: Settings) -> Iterator[None]:
    """What several processes count, any of them tells. Has to be entered before anything is counted."""
    with counted_in_a_folder(wanted=worker_range(settings.workers)[1] > 1):
        yield


@contextmanager
def counted_in_a_folder(*, wanted: bool) -> Iterator[None]:
    """As ``counted_together``, if ``wanted``."""
    if not wanted or os.environ.get(COUNTERS):
        yield
        return
    folder = os.environ[COUNTERS] = tempfile.mkdtemp(prefix="doublebuffer-metrics-")
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        del os.environ[COUNTERS]
