"""A broken answer, gone on with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from backends.base import Stream
from backends.failures import ContextTooLongError
from backends.guarded import Guarded
from backends.seam import Seam, rest_of
from buffer.heard import Said
from buffer.job import Chat, Finish


async def go_on(chat: Chat, said: Said, spent: int, attempt: Callable[[Chat], Stream]) -> Stream:
    """The events of the answer beyond ``said``. Of one that has used up its tokens only the end, unasked."""
    rest = rest_of(chat, said, spent)
    if rest is None:
        yield [Finish("length")]
        return
    seam = Seam(chat, said)
    begun = False
    try:
        async with aclosing(Guarded(rest, attempt)) as stream:
            async for events in stream:
                begun = True
                if new := seam.join(events):
                    yield new
    except ContextTooLongError:
        if begun:
            raise
        # The prompt fitted: it is the answer that has come to the end of the model's context.
        yield [Finish("length")]
