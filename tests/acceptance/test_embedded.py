"""One process, no Redis: the embedded store before the simulated engines."""

from __future__ import annotations

import contextlib
import json
import re

import pytest

from simulate.prompt import render
from simulate.text import mark_of
from tests.acceptance.crowd import Answer, Ask, asks, crowd
from tests.acceptance.site import backend
from tests.rig.processes import run_command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PROFILES = {"rtx4090-vllm": "vllm", "rtx4090-ollama": "ollama", "h100-vllm": "vllm"}


def wrong(asked: Ask, got: Answer) -> str:
    """What is wrong with an answer of the simulated engine, which says a mark of the prompt that it was given."""
    if got.error or got.ends != 1:
        return got.error or "not one end"
    mark = re.match(r"This answer is simulated \[([0-9a-f]{10})\]", got.content)
    prompt = render([{"role": "user", "content": asked.prompt}]).text
    if not mark or mark[1] != mark_of(prompt):
        return "another's answer"
    if asked.think != ("Simulated thinking" in got.thinking) or "thinking" in got.content:
        return "thinking"
    numbers = [int(n) for n in re.findall(r"Line (\d+)", got.content)]
    return "" if numbers == list(range(1, len(numbers) + 1)) else "words lost or repeated"


async def test_a_thousand_chats_without_a_redis() -> None:
    async with contextlib.AsyncExitStack() as stack:
        backends, models = [], []
        for profile, kind in PROFILES.items():
            models.append(f"simulated-{profile}:14b")
            flags = ["--port", "0", "--profile", profile, "--model", models[-1], "--time-scale", "0.01"]
            engine = await stack.enter_async_context(run_command("simulate", *flags))
            await engine.is_healthy()
            backends.append(backend(profile, kind, engine.url))
        # A crowd before one slow engine: some would be told to come back, on a machine that has other work as well.
        environment = {"DOUBLEBUFFER_BACKENDS": json.dumps(backends), "DOUBLEBUFFER_REFUSE_WAIT_SECONDS": "1000"}
        up = await stack.enter_async_context(run_command("up", "--port", "0", environment=environment))
        await up.is_healthy("/health/ready")
        what = asks(1000, models, seed=2)
        answers = await crowd(up.url, what, timeout_s=120)
        found = [w for asked, got in zip(what, answers, strict=True) if (w := wrong(asked, got))]
        assert found == []
