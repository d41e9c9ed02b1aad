"""The Lua scripts: one file for each change of state, put together with the shared pieces that it names.

A script's first line is ``-- needs: <piece> …``; the pieces are the files ``scripts/_<piece>.lua``, joined in the
order named, ahead of it.
Comments and indentation are dropped, since the embedded store compiles a script anew at each call.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

_HEAD = "-- needs:"
_BEGIN, _END = "local function run()", "end\nreturn run()"
"""All behind the first piece is a function of its own: so the functions in it, which are made anew at each call, ninety
of them in a pull, get the first piece's names by a copy; else Lua looks for each of them among all others.
"""


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    source: str
    sha: str


def _bare(text: str) -> str:
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("--"))


@cache
def script(name: str) -> Script:
    """The script ``scripts/<name>.lua``, whole. Raises ``FileNotFoundError`` for a name that there is none of."""
    folder = resources.files("buffer") / "scripts"
    own = (folder / f"{name}.lua").read_text(encoding="utf-8")
    head, _, _ = own.partition("\n")
    pieces = head.removeprefix(_HEAD).split() if head.startswith(_HEAD) else []
    texts = [_bare((folder / f"_{piece}.lua").read_text(encoding="utf-8")) for piece in pieces]
    source = "\n".join((*texts[:1], _BEGIN, *texts[1:], _bare(own), _END))
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


@cache
def by_sha() -> dict[str, Script]:
    """Every script that there is."""
    return {script(name).sha: script(name) for name in SCRIPTS}


SCRIPTS = (
    "append",
    "ask",
    "cancel",
    "claim",
    "create",
    "depths",
    "hold",
    "keep",
    "leave",
    "offer",
    "offline_create",
    "offline_drop",
    "offline_file",
    "offline_hold",
    "offline_move",
    "offline_put",
    "offline_settle",
    "peek",
    "place",
    "prefilled",
    "press",
    "pull",
    "purge",
    "quota",
    "reap",
    "recall",
    "release",
    "renew",
    "requeue",
    "retry",
    "settle",
    "signal",
    "stand",
    "submit",
    "told",
    "watch",
)
