"""``doublebuffer cache`` before a real Redis."""

from __future__ import annotations

from pathlib import Path

from buffer.cache import Shelf
from buffer.cached import Cached, encode_cached
from buffer.job import Content
from buffer.store import open_store
from gateway.question import Question, purge_name
from tests.rig.processes import run_to_end


async def cache(redis_url: str, tmp_path: Path, *command: str) -> tuple[int, str, str]:
    return await run_to_end(["cache", *command, "--redis-url", redis_url], directory=tmp_path)


async def test_answers_are_shown_and_forgotten(redis_url: str, tmp_path: Path) -> None:
    store = await open_store(redis_url)
    try:
        shelf = Shelf(store)
        for place, model in enumerate(("qwen3:8b", "qwen3:8b", "Qwen/Qwen3-14B")):
            data = encode_cached(Cached("fast", [Content("yes")]))
            await shelf.keep(Question(f"q{place}", purge_name(model), 1), data, age_us=0)
        code, out, _ = await cache(redis_url, tmp_path, "show")
        assert code == 0
        assert out.startswith("3 kept answers, ")
        assert out.endswith(" of 67,108,864 bytes.\n")
        assert await cache(redis_url, tmp_path, "purge", "--model", "QWEN3-14b") == (
            0,
            "1 kept answer forgotten.\n",
            "",
        )
        assert (await cache(redis_url, tmp_path, "purge"))[1] == "2 kept answers forgotten.\n"
        assert (await cache(redis_url, tmp_path, "purge"))[1] == "0 kept answers forgotten.\n"
    finally:
        await store.redis.flushall()
        await store.aclose()


async def test_without_a_redis_it_says_what_to_do(tmp_path: Path) -> None:
    code, out, err = await run_to_end(["cache", "purge"], directory=tmp_path)
    assert (code, out) == (2, "")
    assert "REDIS_URL" in err
    assert "DELETE /v1/cache" in err
