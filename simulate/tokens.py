"""Token ids of a simulated model, and the text that they stand for. Pure.

A token is four characters, and its id is these: so a prompt that is sent as ids has the blocks of the chat whose
tokens they are.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence

from simulate.text import CHARS_PER_TOKEN

_LAST = "\uffff"
_UNITS = "utf-16-le"


def ids_of(text: str) -> list[int]:
    """The ids of a text's tokens. Characters beyond the first 65,536 are all the same to it."""
    if not text.isascii() and max(text) > _LAST:
        text = "".join(char if char <= _LAST else "\ufffd" for char in text)
    padded = text + "\0" * (-len(text) % CHARS_PER_TOKEN)
    ids = array("Q", padded.encode(_UNITS, "surrogatepass"))
    if sys.byteorder == "big":
        ids.byteswap()
    return ids.tolist()


def text_of(ids: Sequence[int]) -> str:
    """The text of these tokens. Raises ``ValueError`` for what is no token's id."""
    try:
        units = array("Q", ids)
    except (OverflowError, TypeError):
        raise ValueError("a token's id is a whole number from 0 on, of 64 bits") from None
    if sys.byteorder == "big":
        units.byteswap()
    return units.tobytes().decode(_UNITS, "replace").rstrip("\0")
