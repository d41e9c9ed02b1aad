"""How a real engine counts tokens, learned from two questions and its own usage."""

from __future__ import annotations

from bench.asking import Answer, Asker
from bench.processes import BenchError
from bench.prompts import Prompts, Tongue, body_of

SHORT_CHARS, LONG_CHARS = 200, 2_200
_ROUGHLY = Tongue(4.0, 0.0, 0.0)


async def learn_tongue(asker: Asker, *, model: str, seed: int) -> Tongue:
    """Raises ``BenchError`` if the engine tells no usage, or does not answer."""
    prompts = Prompts(_ROUGHLY, seed=seed)
    counted: list[int] = []
    for chars in (SHORT_CHARS, LONG_CHARS):
        body = body_of(prompts.plain(chars, salt=f"how long is {chars}"), model=model, tokens=1)
        answer = await asker.ask(Answer(0, "", 0.0), body)
        if answer.outcome != "answered":
            raise BenchError(
                f"--direct: the engine did not answer a question of {chars} characters ({answer.trouble})."
            )
        if not answer.prompt_tokens:
            raise BenchError("--direct: the engine does not tell how many tokens a prompt has.")
        counted.append(answer.prompt_tokens)
    return tongue_of(*counted)


def tongue_of(short: int, long: int) -> Tongue:
    """From the tokens of a question of ``SHORT_CHARS`` and of one of ``LONG_CHARS``. A second message is taken to cost
    no more frame than the first. Pure; raises ``BenchError`` if the longer one is not longer.
    """
    if long <= short:
        raise BenchError("--direct: the engine counts a long prompt as no longer than a short one.")
    chars_per_token = (LONG_CHARS - SHORT_CHARS) / (long - short)
    frame = max(0.0, short * chars_per_token - SHORT_CHARS)
    return Tongue(chars_per_token, frame, frame)
