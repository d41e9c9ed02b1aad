"""Pure: a job as the body of a chat completion, in the words of the engine that gets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from backends.extras import extra_fields
from backends.render_messages import openai_messages
from backends.thinking import Plan
from buffer.backend import Kind
from buffer.job import Chat, Format, Sampling

STOP_LIMIT = 4
"""Stop texts that vLLM and OpenAI take; llama.cpp takes any number."""


@dataclass(frozen=True, slots=True)
class Rendered:
    fields: dict[str, Any]
    stops: list[str] = field(default_factory=list)
    """Stop texts that the engine is not told of."""
    mute: bool = False
    """The client wants the prompt read and no word said; the engine says one at least."""

    def body(self, more: Mapping[str, Any] | None = None) -> bytes:
        return msgspec.json.encode({**self.fields, **more} if more else self.fields)


def render(chat: Chat, kind: Kind, upstream_model: str, chosen: Plan, *, context: int = 0) -> Rendered:
    """``context``: tokens that prompt and answer may have, 0 if the engine has not told. Raises ``BackendError``."""
    return worded(chat, kind, upstream_model, chosen, manner(chat, kind, chosen, context=context))


def worded(chat: Chat, kind: Kind, upstream_model: str, chosen: Plan, how: Rendered) -> Rendered:
    """``how``: what ``manner`` gave for such a chat."""
    fields = {"model": upstream_model, "messages": openai_messages(chat, kind, chosen), **how.fields}
    return Rendered(fields, how.stops, how.mute)


def manner(chat: Chat, kind: Kind, chosen: Plan, *, context: int = 0) -> Rendered:
    """All but the model and its messages. Of these it asks only what ``chosen`` tells. Raises ``BackendError``."""
    lenient = chat.front == "ollama"
    fields: dict[str, Any] = {}
    extra = extra_fields(chat, kind)
    template = msgspec.json.decode(extra.pop("chat_template_kwargs")) if "chat_template_kwargs" in extra else {}
    fields |= extra
    if not (kind == "llamacpp" and chat.logprobs and chat.tools):
        # llama.cpp refuses that combination in a stream.
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    sampling = filled(chat.sampling, chosen.family.profile(chosen.think))
    fields |= sampling_fields(sampling, kind, lenient=lenient, context=context)
    fields |= _shape(chat)
    if chosen.continues and kind == "vllm":
        fields |= {"continue_final_message": True, "add_generation_prompt": False}
    if chosen.family.prompt_opens and kind == "llamacpp":
        # Only the engine's own parser can know where such an answer begins.
        fields["reasoning_format"] = "auto"
    wish = dict(chosen.fields)
    template = {**template, **wish.pop("chat_template_kwargs", {})} if isinstance(template, dict) else template
    if template:
        fields["chat_template_kwargs"] = template
    fields |= wish
    mute = lenient and chat.max_tokens == 0
    if chat.max_tokens is not None:
        most = max(1, chat.max_tokens) if lenient else chat.max_tokens
        # Anthropic's clients have to name a length, and name what its own models can do.
        cut = context and (lenient or chat.front == "anthropic")
        fields["max_tokens"] = min(most, context) if cut else most
    return Rendered(fields, put_stops(fields, chat, kind), mute)


def put_stops(fields: dict[str, Any], chat: Chat, kind: Kind) -> list[str]:
    """Tells the engine of as many stop texts as it takes. Gives the rest."""
    stops = [stop for stop in chat.stop if stop]
    told = stops if kind == "llamacpp" else stops[:STOP_LIMIT]
    if told:
        fields["stop"] = told
    if len(told) < len(stops) and kind == "vllm":
        # The answer may be ended here, before the engine gives its counts.
        fields["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    return stops[len(told) :]


def _shape(chat: Chat) -> dict[str, Any]:
    """How many answers, of what form, with which tools."""
    fields: dict[str, Any] = {}
    if chat.n > 1:
        fields["n"] = chat.n
    if chat.tools:
        fields["tools"] = chat.tools
        if chat.tool_choice is not None:
            fields["tool_choice"] = chat.tool_choice
        if chat.parallel_tool_calls is not None:
            fields["parallel_tool_calls"] = chat.parallel_tool_calls
    if chat.format is not None:
        fields["response_format"] = response_format(chat.format)
    if chat.logprobs:
        fields["logprobs"] = True
        if chat.top_logprobs is not None:
            fields["top_logprobs"] = chat.top_logprobs
    return fields


def response_format(wanted: Format) -> dict[str, Any]:
    if wanted.schema is None:
        return {"type": "json_object"}
    schema: dict[str, Any] = {"name": wanted.name or "schema", "schema": wanted.schema}
    if wanted.strict is not None:
        schema["strict"] = wanted.strict
    return {"type": "json_schema", "json_schema": schema}


def filled(given: Sampling, profile: Sampling | None) -> Sampling:
    """What the client set, and what its makers want a model sampled with where the client set nothing."""
    if profile is None:
        return given
    return Sampling(
        **{
            name: getattr(profile, name) if (value := getattr(given, name)) is None else value
            for name in Sampling.__struct_fields__
        }
    )


def sampling_fields(given: Sampling, kind: Kind, *, lenient: bool, context: int) -> dict[str, Any]:
    """What the client set, in the engine's words. ``lenient``: numbers that make no sense are bent, as Ollama does."""
    values: dict[str, float | int | None] = {
        "temperature": given.temperature,
        "top_p": given.top_p,
        "top_k": given.top_k,
        "min_p": given.min_p,
        "presence_penalty": given.presence_penalty,
        "frequency_penalty": given.frequency_penalty,
        "seed": given.seed if given.seed is None or given.seed >= 0 else None,
    }
    if kind == "llamacpp":
        # Its own default is 0.05, every other engine's 0.
        values["min_p"] = 0 if given.min_p is None else given.min_p
        values["typical_p"] = given.typical_p
        values["repeat_penalty"] = given.repeat_penalty
        values["repeat_last_n"] = given.repeat_last_n
        if given.repeat_last_n is not None and given.repeat_last_n < 0:
            values["repeat_last_n"] = context or None
    else:
        values["repetition_penalty"] = None if given.repeat_penalty == 1 else given.repeat_penalty
    if lenient:
        values = {name: _clamp(name, value) for name, value in values.items()}
    return {name: value for name, value in values.items() if value is not None}


def _clamp(name: str, value: float | None) -> float | None:
    """Ollama takes any number; these engines refuse what makes no sense."""
    if value is None:
        return None
    match name:
        case "temperature":
            return min(max(value, 0), 2)
        case "top_p":
            return 1e-4 if value <= 0 else min(value, 1)
        case "top_k":
            return max(value, 0)
        case "min_p":
            return min(max(value, 0), 1)
        case "presence_penalty" | "frequency_penalty":
            return min(max(value, -2), 2)
        case "repetition_penalty":
            return value if value > 0 else None
        case _:
            return value
