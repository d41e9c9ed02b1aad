"""Ids come from blocks that are made ahead."""

import os
import re

from gateway.ids import new_id


def test_no_id_is_given_twice() -> None:
    ids = [new_id() for _ in range(2000)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[0-9a-f]{32}", id) for id in ids)


def test_a_child_gives_none_of_its_parents() -> None:
    new_id()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, "".join(new_id() for _ in range(10)).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    told = os.read(reader, 10 * 32).decode()
    os.close(reader)
    theirs = {told[at : at + 32] for at in range(0, len(told), 32)}
    assert len(theirs) == 10
    assert theirs.isdisjoint(new_id() for _ in range(300))
