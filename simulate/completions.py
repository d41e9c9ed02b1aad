"""``POST /v1/completions``, as vLLM answers it: text that goes on from a literal prompt, and no thinking."""

from __future__ import annotations

import time
from dataclasses import replace
from uuid import uuid4

import msgspec

from simulate.bodies import MAX_ANSWERS, CompletionBody, decode
from simulate.chat_openai import BUSY
from simulate.driver import Answer, Group
from simulate.plan import Wish, plan_answer
from simulate.prompt import Prompt, raw
from simulate.sequence import RefusedError
from simulate.site import Site
from simulate.tokens import text_of
from simulate.wire import SSE, Exchange, HttpError

DEFAULT_TOKENS = 16


async def completion(site: Site, exchange: Exchange) -> None:
    """One prompt a request, of text or of token ids. Raises ``HttpError`` before the answer has begun."""
    body = decode(await exchange.body(), CompletionBody, site.kind)
    model = site.find(body.model) if body.model else site.models[0]
    if model is None:
        message = f"The model `{body.model}` does not exist."
        raise HttpError(404, message, kind="NotFoundError", param="model")
    most = DEFAULT_TOKENS if body.max_tokens is None else body.max_tokens
    _check(body, most)
    prompt = _prompt(body)
    room = site.context_length - prompt.tokens
    if room < 1:
        raise _refused("input_tokens", f"This model's maximum context length is {site.context_length} tokens.")
    wish = Wish(
        prompt=prompt.text,
        profile=site.profile.name,
        thinks=False,
        max_tokens=max(1, most),
        natural_tokens=body.sim_output_tokens,
        ignore_eos=body.ignore_eos or site.ignore_eos,
        stop=body.stops,
    )
    plans = [plan_answer(wish, index, room=room) for index in range(body.n or 1)]
    try:
        group = site.driver.submit(prompt, plans, model=model)
    except RefusedError as error:
        raise HttpError(503, BUSY, kind="Service Unavailable") from error
    reply = _Reply(site, body, group, prompt.text)
    await exchange.answer(site.driver, group, reply.stream(exchange) if body.stream else reply.whole(exchange))


def _check(body: CompletionBody, most: int) -> None:
    if body.suffix:
        raise _refused("suffix", "suffix is not currently supported")
    if not 1 <= (body.n or 1) <= MAX_ANSWERS:
        raise _refused("n", f"n must be between 1 and {MAX_ANSWERS}")
    if body.stream_options is not None and not body.stream:
        raise _refused("stream_options", "stream_options needs stream to be true")
    if most < (0 if body.echo else 1):
        raise _refused("max_tokens", f"max_tokens must be at least 1, got {most}.")


def _prompt(body: CompletionBody) -> Prompt:
    given = body.prompt
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], str | list):
        given = given[0]
    if isinstance(given, str):
        return raw(given)
    try:
        text = text_of(given) if given else ""
    except ValueError:
        given = []
    if not given:
        raise _refused("prompt", "the simulated engine takes one prompt a request, a text or a list of token ids")
    return replace(raw(text), tokens=len(given))


def _refused(param: str, message: str) -> HttpError:
    return HttpError(400, message, kind="BadRequestError", param=param)


class _Reply:
    """The answers to one request, on their way."""

    def __init__(self, site: Site, body: CompletionBody, group: Group, prompt: str) -> None:
        self._group = group
        self._include_usage = bool((body.stream_options or {}).get("include_usage"))
        self._echoed = prompt if body.echo else ""
        self._says = body.max_tokens != 0
        self._head: dict[str, object] = {
            "id": f"cmpl-{uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": body.model or site.models[0],
            "system_fingerprint": site.fingerprint,
        }

    async def stream(self, exchange: Exchange) -> None:
        await exchange.start(SSE)
        answers = self._group.answers
        sent = [0] * len(answers)
        done = [False] * len(answers)
        while not all(done):
            await self._group.changed()
            for index, answer in enumerate(answers):
                if not done[index] and (answer.ready > sent[index] or answer.ended):
                    text = self._text(answer, sent[index], answer.ready)
                    sent[index], done[index] = answer.ready, answer.ended
                    await exchange.write(self._event([self._choice(index, text, answer)]))
        if self._include_usage:
            await exchange.write(self._event([], self._usage()))
        await exchange.write(b"data: [DONE]\n\n")
        await exchange.end()

    async def whole(self, exchange: Exchange) -> None:
        await self._group.whole()
        choices = [
            self._choice(index, self._text(answer, 0, answer.plan.tokens), answer)
            for index, answer in enumerate(self._group.answers)
        ]
        await exchange.json({**self._head, "choices": choices, "usage": self._usage()})

    def _text(self, answer: Answer, start: int, stop: int) -> str:
        said = answer.plan.span(start, stop)[1] if self._says else ""
        return said if start else self._echoed + said

    def _choice(self, index: int, text: str, answer: Answer) -> dict[str, object]:
        return {
            "index": index,
            "text": text,
            "logprobs": None,
            "finish_reason": answer.plan.finish if answer.ended else None,
            "stop_reason": answer.plan.stop_reason if answer.ended else None,
        }

    def _event(self, choices: list[dict[str, object]], usage: dict[str, object] | None = None) -> bytes:
        value = self._head | {"choices": choices} | ({} if usage is None else {"usage": usage})
        return b"data: " + msgspec.json.encode(value) + b"\n\n"

    def _usage(self) -> dict[str, object]:
        sequence = self._group.answers[0].sequence
        completion = sum(answer.ready for answer in self._group.answers) if self._says else 0
        return {
            "prompt_tokens": sequence.prompt,
            "completion_tokens": completion,
            "total_tokens": sequence.prompt + completion,
            "prompt_tokens_details": {"cached_tokens": sequence.cached},
        }
