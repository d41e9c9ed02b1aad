"""Scripts broken on purpose: what random schedules find of it, beside the tests of each guard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.buffer.guards.changing import script_text, text_of

BROKEN = {
    "renew without its fence": ("renew", "elseif j.fence == fence then", "elseif true then"),
    "append without its number": ("append", "elseif tonumber(v[3]) + 1 ~= first then", "elseif false then"),
    "settle without its fence": ("settle", "if j.fence > fence then", "if false then"),
    "requeue under the old fence": ("requeue", "raise(j)\n", ""),
    "restore under the old fence": ("_submitting", "j.fence = math.max(now, floor + 1, ", "j.fence = math.max(floor, "),
    "pull never by who has waited for too long": ("pull", "if due and due_at < j.arr then", "if false then"),
    "pull above the memory": ("_credit", "load.kv + need.kv > kv_room", "false"),
    "a piece that its load does not have": (
        "_sending",
        "    call('HSET', load_key, j.id, share(j))\n    sent",
        "    sent",
    ),
    "an offer to a back end that is not idle": ("_offer", "call('EXISTS', P .. 'load:' .. backend) == 0", "true"),
    "an offer before who waits": ("_submitting", "waiting == 0 and inputs == 0", "inputs == 0"),
    "a grant under the old fence": (
        "_grant",
        "raise(j, 'st', j.st,",
        "j.under = int(j.fence)\n  call('HSET', j.key, 'st', j.st,",
    ),
    "take-over under the old fence": ("reap", "freed = freed + out(j)\n    raise(j)\n", "freed = freed + out(j)\n"),
}
"""What is wrong → file, what stands there, what is there in its place."""


@contextmanager
def broken(name: str) -> Iterator[None]:
    """Raises ``KeyError``, and ``LookupError`` if the script has changed."""
    file, old, new = BROKEN[name]
    text = text_of(file)
    if text.count(old) != 1:
        raise LookupError(f"{file}.lua has {text.count(old)} times, not once: {old!r}")
    with script_text(file, text.replace(old, new)):
        yield
