"""``POST /api/chat`` and ``POST /api/generate``, as Ollama answers them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from simulate.bodies import OllamaBody, call_of, decode
from simulate.driver import Group
from simulate.going_on import Begun, split, with_beginning
from simulate.listing import KEEP_S, timestamp
from simulate.ollama import OPEN_END
from simulate.plan import Wish, plan_answer
from simulate.prompt import Prompt, PromptError, raw, render
from simulate.sequence import RefusedError
from simulate.site import Site
from simulate.wire import NDJSON, Exchange, HttpError

BUSY = "server busy, please try again.  maximum pending requests exceeded"
JSON_UTF8 = "application/json; charset=utf-8"
FOREVER = datetime(9999, 1, 1, tzinfo=UTC)


async def chat(site: Site, exchange: Exchange) -> None:
    """Raises ``HttpError`` before the answer has begun."""
    await _answer(site, exchange, generate=False)


async def generate(site: Site, exchange: Exchange) -> None:
    """Raises ``HttpError`` before the answer has begun."""
    await _answer(site, exchange, generate=True)


async def _answer(site: Site, exchange: Exchange, *, generate: bool) -> None:
    body = decode(await exchange.body(), OllamaBody, "ollama")
    if not body.model:
        raise HttpError(400, "model is required")
    model = site.find(body.model)
    if model is None:
        raise HttpError(404, f"model '{body.model}' not found")
    if generate:
        _check_generate(body)
    keep_s = body.keep_s
    idle = not (body.prompt if generate else body.messages)
    if idle and keep_s == 0:
        site.unload()
        await exchange.json(_line(body, generate, done="unload"), content_type=JSON_UTF8)
        return
    num_ctx = (body.whole_number("num_ctx") or 0) if site.kind == "ollama" else 0
    if num_ctx < 0:
        raise HttpError(400, 'option "num_ctx" must be positive')
    if idle:
        group = _load(site, model, num_ctx)
        work = _loaded(exchange, group, body, generate=generate)
    else:
        group = _submit(site, body, model, num_ctx, generate=generate)
        work = (_whole if body.stream is False else _stream)(site, exchange, group, body, generate)
    try:
        await exchange.answer(site.driver, group, work)
    finally:
        _keep(site, model, KEEP_S if keep_s is None else keep_s)


def _check_generate(body: OllamaBody) -> None:
    if body.raw and (body.template or body.system or body.context):
        raise HttpError(400, "raw mode does not support template, system, or context")
    if body.suffix and body.prompt:
        raise HttpError(400, f'"{body.model}" does not support insert')


def _keep(site: Site, model: str, seconds: float) -> None:
    if seconds == 0:
        site.unload()
        return
    bounded = 0 < seconds < 1e9
    site.expires_at[model] = datetime.now(UTC) + timedelta(seconds=seconds) if bounded else FOREVER


def _load(site: Site, model: str, num_ctx: int) -> Group:
    """The shortest request there is: it waits for the loading as any other does."""
    plan = plan_answer(Wish(prompt="", profile=site.profile.name, thinks=False, max_tokens=1))
    try:
        return site.driver.submit(Prompt("", 1, ()), [plan], model=model, num_ctx=num_ctx)
    except RefusedError as error:
        raise HttpError(503, BUSY) from error


async def _loaded(exchange: Exchange, group: Group, body: OllamaBody, *, generate: bool) -> None:
    await group.whole()
    await exchange.json(_line(body, generate, done="load"), content_type=JSON_UTF8)


def _question(body: OllamaBody, *, generate: bool) -> tuple[Prompt, Begun]:
    if not generate:
        messages, begun = split(body.messages or ())
        return render(messages, body.tools or ()), begun
    if body.raw:
        return raw(body.prompt or ""), Begun()
    system = [{"role": "system", "content": body.system}] if body.system else []
    return render([*system, {"role": "user", "content": body.prompt, "images": body.images}]), Begun()


def _submit(site: Site, body: OllamaBody, model: str, num_ctx: int, *, generate: bool) -> Group:
    try:
        question, begun = _question(body, generate=generate)
    except PromptError as error:
        raise HttpError(400, str(error)) from error
    prompt = with_beginning(question, begun, site.profile.name)
    length = num_ctx or site.context_length
    if site.kind == "vllm" or body.truncate is False:
        room = length - prompt.tokens
        if room < 1:
            raise HttpError(400, "the input length exceeds the context length")
    room = length * OPEN_END if site.kind == "ollama" else length - prompt.tokens
    most = body.whole_number("num_predict")
    options = body.options or {}
    wish = Wish(
        prompt=question.text,
        profile=site.profile.name,
        thinks=body.thinks,
        begun=begun.text,
        max_tokens=most if most is not None and most > 0 else None,
        natural_tokens=body.whole_number("sim_output_tokens"),
        ignore_eos=options.get("ignore_eos") is True or site.ignore_eos,
        stop=body.stops,
        call=call_of(body.tools) if body.tools and options.get("sim_tool_call") is True else None,
        structured=body.structured,
    )
    try:
        return site.driver.submit(prompt, [plan_answer(wish, room=room)], model=model, num_ctx=num_ctx)
    except RefusedError as error:
        raise HttpError(503, BUSY) from error


def _line(body: OllamaBody, generate: bool, thought: str = "", said: str = "", *, done: str = "") -> dict[str, object]:
    """One line. ``done``: the reason, on the last."""
    line: dict[str, object] = {"model": body.model, "created_at": timestamp(datetime.now(UTC))}
    thinking = {"thinking": thought} if thought else {}
    if generate:
        line |= {"response": said, **thinking}
    else:
        line["message"] = {"role": "assistant", "content": said, **thinking}
    line["done"] = bool(done)
    if done:
        line["done_reason"] = done
    return line


def _call_line(body: OllamaBody, name: str, arguments: str) -> dict[str, object]:
    line = _line(body, False)
    message: Any = line["message"]
    message["tool_calls"] = [{"function": {"index": 0, "name": name, "arguments": msgspec.json.decode(arguments)}}]
    return line


def _counts(site: Site, group: Group) -> dict[str, object]:
    """Counts, and times in nanoseconds of the wall clock."""
    sequence = group.answers[0].sequence
    first_at = group.submitted_at if math.isnan(group.first_at) else group.first_at
    waited_s = (sequence.admitted_at - sequence.arrived_at) * site.driver.time_scale
    load_ns = max(0, round(waited_s * 1e9)) if math.isfinite(waited_s) else 0
    read_ns = max(1, round((first_at - group.submitted_at) * 1e9) - load_ns)
    return {
        "total_duration": round((group.ended_at - group.submitted_at) * 1e9),
        "load_duration": load_ns,
        "prompt_eval_count": sequence.prompt,
        "prompt_eval_duration": read_ns,
        "eval_count": sequence.output,
        "eval_duration": max(1, round((group.ended_at - first_at) * 1e9)),
    }


def _reason(group: Group) -> str:
    """Ollama ends a tool call with ``stop``."""
    return "length" if group.answers[0].plan.finish == "length" else "stop"


async def _stream(site: Site, exchange: Exchange, group: Group, body: OllamaBody, generate: bool) -> None:
    answer = group.answers[0]
    plan, sent, arguments = answer.plan, 0, ""
    while not answer.ended or sent < answer.ready:
        await group.changed()
        thought, said = plan.span(sent, answer.ready)
        sent = answer.ready
        if plan.tool:
            arguments, said = arguments + said, ""
        if thought or said:
            await exchange.start(NDJSON)
            await exchange.write(msgspec.json.encode(_line(body, generate, thought, said)) + b"\n")
    lines = [_line(body, generate, done=_reason(group)) | _counts(site, group)]
    if plan.finish == "tool_calls":
        lines.insert(0, _call_line(body, plan.tool, arguments))
    await exchange.start(NDJSON)
    await exchange.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    await exchange.end()


async def _whole(site: Site, exchange: Exchange, group: Group, body: OllamaBody, generate: bool) -> None:
    await group.whole()
    plan = group.answers[0].plan
    thought, said = plan.span(0, plan.tokens)
    line = _line(body, generate, thought, "" if plan.tool else said, done=_reason(group))
    if plan.finish == "tool_calls":
        message: Any = line["message"]
        call: Any = _call_line(body, plan.tool, said)["message"]
        message["tool_calls"] = call["tool_calls"]
    await exchange.json(line | _counts(site, group), content_type=JSON_UTF8)
