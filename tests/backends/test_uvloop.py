"""What depends on the loop, once more on uvloop, on which the processes run."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest
import uvloop

from buffer.backend import Kind
from tests.backends import test_breaks, test_chat, test_leaving
from tests.rig.script import CUT, FIN, HEAD, HOLD, RST


def cases(kind: Kind) -> list[Coroutine[Any, Any, None]]:
    return [
        test_leaving.test_giving_up_before_the_first_byte_closes_the_connection(kind, [HOLD]),
        test_leaving.test_giving_up_before_the_first_byte_closes_the_connection(kind, [HEAD, HOLD]),
        test_leaving.test_giving_up_while_words_come_closes_the_connection(kind),
        test_leaving.test_connections_are_used_again(kind),
        test_breaks.test_words_before_a_break_are_not_lost_on_a_slow_reader(kind, RST),
        test_breaks.test_words_before_a_break_are_not_lost_on_a_slow_reader(kind, CUT),
        test_breaks.test_broken_streams(kind, FIN),
        test_breaks.test_silence(kind),
        test_chat.test_picture_of_fifteen_megabytes(kind),
        test_chat.test_one_line_of_six_megabytes(kind),
    ]


@pytest.mark.parametrize("kind", ["vllm", "ollama"])
def test_on_uvloop(kind: Kind) -> None:
    async def one_after_the_other() -> None:
        for case in cases(kind):
            await case

    uvloop.run(one_after_the_other())
