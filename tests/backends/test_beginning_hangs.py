"""An engine that takes the question for a prompt's tokens, and says nothing."""

from __future__ import annotations

import pytest

from backends import beginning as beginning_module
from tests.backends.test_beginning import TOKENS, Answers, ask, begun, vllm
from tests.rig.script import Status, Word


async def test_after_two_questions_in_vain_prompts_go_whole_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: Answers = {"/tokenize": [[Word.HOLD], [Word.HOLD], Status(200, TOKENS)]}
    monkeypatch.setattr(beginning_module, "TOKENS_S", 0.2)
    async with vllm(answers) as (_, of, asked):
        for _number in range(3):
            assert await of.beginning(ask(), upstream_model="m-oai") is None
            await of.probe()
        assert asked == ["/tokenize"] * 2
        assert not of.splits
        monkeypatch.setattr(beginning_module, "AGAIN_S", 0.0)
        await of.probe()
        assert (await begun(of)).tokens == 100
