"""A long prompt whose answer may go beyond the context, before a vLLM that refuses that and one that cuts it short."""

from __future__ import annotations

from buffer.job import Chat, Message, encode_chat
from buffer.store import Store
from tests.rig.script import Status
from tests.worker.rig import Ask, Gate, quiet
from tests.worker.test_reading import Engine, ask, one_engine

REFUSAL = (
    "'max_tokens' or 'max_completion_tokens' is too large: 31000. This model's maximum context length is 32768 tokens "
    "and your request has 2000 input tokens (31000 > 32768 - 2000)."
)


async def document(door: Gate, name: str) -> Ask:
    chat = Chat("m-oai", [Message("user", f"marker:{name} words:2")], max_tokens=31_000)
    return await ask(door, name, body=encode_chat(chat))


async def test_what_an_older_vllm_refuses_is_refused_before_a_piece_was_read(store: Store, door: Gate) -> None:
    engine = Engine(script=[Status(400, {"error": {"message": REFUSAL, "code": 400}})])
    async with one_engine(store, engine):
        for name in ("first", "second"):
            end = await (await document(door, name)).end()
            assert end.failure is not None
            assert (end.kind, end.failure.status, end.failure.message) == ("failed", 400, REFUSAL)
        assert not engine.pieces
    await quiet(door.lanes)


async def test_what_a_newer_one_cuts_short_is_read_in_pieces_from_the_second_on(store: Store, door: Gate) -> None:
    engine = Engine()
    async with one_engine(store, engine):
        first = await document(door, "first")
        assert (await first.end()).kind == "done"
        assert not engine.pieces
        second = await document(door, "second")
        assert (await second.end()).kind == "done"
        assert (first.text, second.text) == ("first 1 2", "second 1 2")
        assert len(engine.pieces) > 2
    await quiet(door.lanes)
