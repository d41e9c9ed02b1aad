"""Pure: a job with a literal prompt, in the words of the engine that gets it."""

from __future__ import annotations

from typing import Any

import msgspec

from backends.base import BackendError
from backends.extras import extra_fields
from backends.render_ollama import base64_of, options_of, settings
from backends.render_openai import Rendered, put_stops, response_format, sampling_fields
from buffer.backend import Kind
from buffer.job import AudioPart, Chat, ImagePart, Think

COMPLETION_TOKENS = 16
"""OpenAI's bound for a completion that sets none. Engines that have it of their own are not told."""
OPEN_END_TOKENS = 4096
"""For Ollama's clients, who expect no bound, where the engine has one and does not tell how long its context is."""
COMPLETIONS = "/v1/completions"
INFILL = "/infill"

_OF_CHATS = (
    "chat_template_kwargs", "add_generation_prompt", "continue_final_message", "documents", "modalities", "prediction",
    "verbosity", "thinking_budget_tokens", "thinking_token_budget", "reasoning_budget_tokens",
    "reasoning_budget_message",
)  # fmt: skip

_THINK: dict[Think, bool] = {"on": True, "off": False}


def echoes(chat: Chat) -> bool:
    """Whether the client wants the prompt back before the answer."""
    return chat.prompt is not None and "echo" in chat.extra


def render_text(chat: Chat, kind: Kind, upstream_model: str, *, context: int = 0) -> tuple[str, Rendered]:
    """The path that takes a literal prompt, and what it is sent. ``context``: as for ``render``. Raises
    ``BackendError``."""
    if chat.messages:
        raise _refused("The model's engine takes no images beside a literal prompt.", "images")
    infill = kind == "llamacpp" and chat.suffix is not None
    fields: dict[str, Any] = {"model": upstream_model, "stream": True}
    if not infill:
        fields["stream_options"] = {"include_usage": True}
    fields |= {name: value for name, value in extra_fields(chat, kind).items() if name not in _OF_CHATS}
    fields |= sampling_fields(chat.sampling, kind, lenient=chat.front == "ollama", context=context)
    fields |= _shape(chat, kind)
    if infill:
        if chat.prompt_tokens:
            raise _refused("The model's engine takes a prompt with a suffix as text only.", "prompt")
        fields |= {"input_prefix": chat.prompt, "input_suffix": chat.suffix, "prompt": ""}
    else:
        fields["prompt"] = chat.prompt_tokens or chat.prompt
        if chat.suffix is not None:
            fields["suffix"] = chat.suffix
    if echoes(chat) and kind == "llamacpp" and chat.prompt_tokens:
        raise _refused("The model's engine cannot echo a prompt of token ids.", "echo")
    most = _most_tokens(chat, kind, context)
    if most is not None:
        fields["n_predict" if infill else "max_tokens"] = most
    rest = put_stops(fields, chat, kind)
    return INFILL if infill else COMPLETIONS, Rendered(fields, rest, chat.max_tokens == 0 and most != 0)


def render_generate(chat: Chat, upstream_model: str, *, num_ctx: int | None) -> tuple[dict[str, Any], bool]:
    """The body for Ollama's ``/api/generate``, and whether no word of the answer is wanted. ``num_ctx``: as for
    ``render_ollama``. Raises ``BackendError``."""
    if chat.prompt_tokens:
        raise _refused("Ollama takes prompts as text only, not as token ids.", "prompt")
    if not chat.prompt:
        # It would load the model and say nothing.
        raise _refused("Ollama takes no empty prompt.", "prompt")
    mute = chat.max_tokens == 0 and chat.front != "ollama"
    if chat.front != "ollama":
        chat = msgspec.structs.replace(chat, max_tokens=1 if mute else chat.max_tokens or COMPLETION_TOKENS)
    fields: dict[str, Any] = {
        "model": upstream_model,
        "prompt": chat.prompt,
        "stream": True,
        "options": options_of(chat, num_ctx),
        **settings(chat),
    }
    if chat.front != "ollama":
        # The text as the model says it, tags and all.
        fields["think"] = False
    elif chat.think != "unset":
        fields["think"] = _THINK.get(chat.think, chat.think)
    # A suffix has its place in the model's template.
    fields |= {"raw": True} if chat.suffix is None else {"suffix": chat.suffix}
    parts = [part for message in chat.messages if isinstance(message.content, list) for part in message.content]
    media = [base64_of(part.url) for part in parts if isinstance(part, ImagePart)]
    media += [part.data for part in parts if isinstance(part, AudioPart)]
    if media:
        fields["images"] = media
    return fields, mute


def _shape(chat: Chat, kind: Kind) -> dict[str, Any]:
    """How many answers, of what form."""
    fields: dict[str, Any] = {}
    if chat.n > 1:
        fields["n"] = chat.n
    if echoes(chat) and kind != "llamacpp":
        fields["echo"] = True
    if chat.logprobs:
        if kind == "llamacpp":
            fields["n_probs"] = max(1, chat.top_logprobs or 0)
        else:
            fields["logprobs"] = chat.top_logprobs or 0
    if chat.format is not None:
        if kind == "llamacpp":
            fields["json_schema"] = {"type": "object"} if chat.format.schema is None else chat.format.schema
        else:
            fields["response_format"] = response_format(chat.format)
    return fields


def _most_tokens(chat: Chat, kind: Kind, context: int) -> int | None:
    lenient = chat.front == "ollama"
    if chat.max_tokens is None:
        if kind == "llamacpp":
            return None if lenient else COMPLETION_TOKENS
        return (context or OPEN_END_TOKENS) if lenient else None
    if chat.max_tokens == 0 and echoes(chat) and kind == "vllm":
        # Probabilities of the prompt's own tokens are asked for so.
        return 0
    most = max(1, chat.max_tokens)
    return min(most, context) if lenient and context else most


def _refused(message: str, param: str) -> BackendError:
    return BackendError(message, kind="client", status=400, code="unsupported_value", param=param)
