"""The counts of an answer that several attempts made. Pure."""

from __future__ import annotations

from buffer.job import Usage


def whole_usage(rest: Usage, spent: int) -> Usage:
    """``rest``: as the engine counted that went on. To it the ``spent`` tokens of the attempts before were prompt.

    How long these took is not known here; they are taken to have been as fast, so that nobody computes a wrong speed.
    What they thought is not known either.
    """
    prompt = max(0, rest.prompt - spent)
    completion_ns = rest.completion_ns
    if completion_ns and rest.completion:
        completion_ns = round(completion_ns * (1 + spent / rest.completion))
    return Usage(
        prompt=prompt,
        completion=rest.completion + spent,
        cached=None if rest.cached is None else min(rest.cached, prompt),
        prompt_ns=rest.prompt_ns,
        completion_ns=completion_ns,
        load_ns=rest.load_ns,
    )
