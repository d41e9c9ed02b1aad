"""A script with its text changed for a while. The product knows nothing of it: what is patched is where it reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from types import SimpleNamespace
from unittest.mock import patch

from buffer import scripting


def text_of(file: str) -> str:
    """Of ``scripts/<file>.lua``. Raises ``FileNotFoundError``."""
    return (resources.files("buffer") / "scripts" / f"{file}.lua").read_text(encoding="utf-8")


class _Scripts:
    """In the place of the folder."""

    def __init__(self, file: str, text: str) -> None:
        self._file, self._text = file, text

    def __truediv__(self, name: str) -> _Scripts | SimpleNamespace:
        if name == "scripts":
            return self
        file = name.removesuffix(".lua")
        return SimpleNamespace(read_text=lambda encoding: self._text if file == self._file else text_of(file))


@contextmanager
def script_text(file: str, text: str) -> Iterator[None]:
    """``scripts/<file>.lua`` reads so, and the scripts that it is a piece of are put together anew. For stores opened
    meanwhile.
    """
    folder = SimpleNamespace(files=lambda package: _Scripts(file, text))
    try:
        with patch.object(scripting, "resources", folder):
            _forget()
            yield
    finally:
        _forget()


def _forget() -> None:
    scripting.script.cache_clear()
    scripting.by_sha.cache_clear()
