"""Modules that are not to be found, as on a machine where they are not installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """The first ones are imported anew the next time, the last is not there."""
    *anew, gone = names
    with patch.dict(sys.modules, {gone: None}):
        for name in anew:
            sys.modules.pop(name, None)
        yield
