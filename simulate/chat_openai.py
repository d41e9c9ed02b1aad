"""``POST /v1/chat/completions``, as vLLM answers it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from uuid import uuid4

import msgspec

from simulate.bodies import ChatBody, check_like_vllm, decode
from simulate.driver import Answer, Group
from simulate.going_on import Begun, split, with_beginning
from simulate.plan import Wish, plan_answer
from simulate.prompt import Prompt, PromptError, render
from simulate.sequence import RefusedError
from simulate.site import Site
from simulate.wire import SSE, Exchange, HttpError

BUSY = "server busy, please try again.  maximum pending requests exceeded"


@dataclass(frozen=True, slots=True)
class Reply:
    """What every piece of an answer carries."""

    id: str
    created: int
    model: str
    fingerprint: str
    show_reasoning: bool
    named_tool: bool

    def chunk(self, index: int, delta: dict[str, object], finish: str | None = None, stop: str | None = None) -> bytes:
        choice: dict[str, object] = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
        if finish is not None:
            choice["stop_reason"] = stop
        return self.event([choice])

    def event(self, choices: list[dict[str, object]], usage: dict[str, object] | None = None) -> bytes:
        value: dict[str, object] = {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "choices": choices,
        }
        if usage is not None:
            value["usage"] = usage
        return b"data: " + msgspec.json.encode(value) + b"\n\n"

    def finish_reason(self, answer: Answer) -> str:
        """vLLM ends a call that the client named with ``stop``."""
        reason = answer.plan.finish
        return "stop" if self.named_tool and reason == "tool_calls" else reason


async def chat(site: Site, exchange: Exchange) -> None:
    """Raises ``HttpError`` before the answer has begun."""
    body = decode(await exchange.body(), ChatBody, site.kind)
    model = site.find(body.model) if body.model else site.models[0]
    if model is None:
        names = ", ".join(site.models)
        message = f"The model `{body.model}` does not exist. Valid aliases: {names}."
        raise HttpError(404, message, kind="NotFoundError", param="model")
    if site.kind == "vllm":
        check_like_vllm(body, site.context_length)
    # Ollama goes on with any beginning, vLLM where it is told to.
    goes_on = site.kind == "ollama" or body.continue_final_message
    messages, begun = split(body.messages) if goes_on else (body.messages, Begun())
    try:
        question = render(messages, body.tools or ())
    except PromptError as error:
        raise HttpError(400, str(error), kind="BadRequestError", param="messages") from error
    group = _submit(site, body, question, begun, model)
    given = exchange.headers.get(b"x-request-id", b"").decode("latin-1")
    reply = Reply(
        id=f"chatcmpl-{given or uuid4().hex}",
        created=int(time.time()),
        model=body.model or model,
        fingerprint=site.fingerprint,
        show_reasoning=body.include_reasoning,
        named_tool=bool(body.named_tool) and site.kind == "vllm",
    )
    usage = bool((body.stream_options or {}).get("include_usage"))
    work = (
        _stream(site, exchange, group, reply, include_usage=usage)
        if body.stream
        else _whole(site, exchange, group, reply)
    )
    await exchange.answer(site.driver, group, work)


def _submit(site: Site, body: ChatBody, question: Prompt, begun: Begun, model: str) -> Group:
    prompt = with_beginning(question, begun, site.profile.name)
    room = site.context_length - prompt.tokens if site.kind == "vllm" else None
    if room is not None and room < 1:
        raise HttpError(
            400,
            f"This model's maximum context length is {site.context_length} tokens. However, your request has at least "
            f"{prompt.tokens} input tokens.",
            kind="BadRequestError",
            param="input_tokens",
        )
    wish = Wish(
        prompt=question.text,
        profile=site.profile.name,
        thinks=body.thinks,
        begun=begun.text,
        max_tokens=body.most_tokens,
        natural_tokens=body.sim_output_tokens,
        ignore_eos=body.ignore_eos or site.ignore_eos,
        stop=body.stops,
        call=body.call,
        structured=body.structured,
    )
    plans = [plan_answer(wish, index, room=room) for index in range(body.n or 1)]
    try:
        return site.driver.submit(prompt, plans, model=model)
    except RefusedError as error:
        raise HttpError(503, BUSY, kind="Service Unavailable") from error


def _usage(group: Group) -> dict[str, object]:
    prompt = group.answers[0].sequence.prompt
    completion = sum(answer.ready for answer in group.answers)
    thought = sum(min(answer.ready, answer.plan.thinking_tokens) for answer in group.answers)
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": group.answers[0].sequence.cached},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


async def _stream(site: Site, exchange: Exchange, group: Group, reply: Reply, *, include_usage: bool) -> None:
    if site.kind == "vllm":
        await exchange.start(SSE)
    sent = [0] * len(group.answers)
    done = [False] * len(group.answers)
    while not all(done):
        await group.changed()
        pieces: list[bytes] = []
        for index, answer in enumerate(group.answers):
            if not done[index] and (answer.ready > sent[index] or answer.ended):
                pieces += _pieces(index, answer, sent[index], reply)
                sent[index], done[index] = answer.ready, answer.ended
        await exchange.start(SSE)
        await exchange.write(b"".join(pieces))
    if include_usage:
        await exchange.write(reply.event([], _usage(group)))
    await exchange.write(b"data: [DONE]\n\n")
    await exchange.end()


def _pieces(index: int, answer: Answer, sent: int, reply: Reply) -> list[bytes]:
    """The chunks for the tokens that are ready and not sent. The last one carries the reason, as vLLM's does."""
    plan = answer.plan
    thought, said = plan.span(sent, answer.ready)
    deltas: list[dict[str, object]] = []
    if not sent:
        deltas.append({"role": "assistant", "content": ""})
    if thought and reply.show_reasoning:
        deltas.append({"reasoning": thought})
    if plan.tool and sent <= plan.thinking_tokens < answer.ready:
        head = {"name": plan.tool, "arguments": ""}
        deltas.append({"tool_calls": [{"index": 0, "id": _call_id(answer), "type": "function", "function": head}]})
    if said:
        deltas.append(
            {"tool_calls": [{"index": 0, "function": {"arguments": said}}]} if plan.tool else {"content": said}
        )
    if not answer.ended:
        return [reply.chunk(index, delta) for delta in deltas]
    last: dict[str, object] = deltas.pop() if len(deltas) > 1 or (deltas and sent) else {"content": ""}
    end = reply.chunk(index, last, reply.finish_reason(answer), plan.stop_reason)
    return [*(reply.chunk(index, delta) for delta in deltas), end]


def _call_id(answer: Answer) -> str:
    return f"chatcmpl-tool-{answer.plan.mark}"


async def _whole(site: Site, exchange: Exchange, group: Group, reply: Reply) -> None:
    await group.whole()
    choices: list[dict[str, object]] = []
    for index, answer in enumerate(group.answers):
        plan = answer.plan
        thought, said = plan.span(0, plan.tokens)
        message: dict[str, object] = {
            "role": "assistant",
            "content": None if plan.tool else said or None,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "reasoning": thought if thought and reply.show_reasoning else None,
        }
        if plan.tool and plan.tokens > plan.thinking_tokens:
            call = {"name": plan.tool, "arguments": said}
            message["tool_calls"] = [{"id": _call_id(answer), "type": "function", "function": call}]
        choices.append(
            {
                "index": index,
                "message": message,
                "logprobs": None,
                "finish_reason": reply.finish_reason(answer),
                "stop_reason": plan.stop_reason,
            }
        )
    await exchange.json(
        {
            "id": reply.id,
            "object": "chat.completion",
            "created": reply.created,
            "model": reply.model,
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": reply.fingerprint,
            "usage": _usage(group),
            "prompt_logprobs": None,
        }
    )
