"""Pure: what engines are asked for a prompt's tokens, and what they tell of their slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TOLD_APART = ("model", "messages", "tools", "add_generation_prompt", "continue_final_message", "add_special_tokens")
"""What vLLM's ``/tokenize`` takes of a chat completion."""
_TEMPLATE = ("documents", "reasoning_effort")
"""What a chat completion gives the template besides ``chat_template_kwargs``, and ``/tokenize`` does not take."""


def vllm_question(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What vLLM's ``/tokenize`` is asked for the tokens of a chat completion or of a completion with these fields."""
    if "prompt" in fields:
        return {"model": fields["model"], "prompt": fields["prompt"]}
    question: dict[str, Any] = {name: fields[name] for name in _TOLD_APART if name in fields}
    template: dict[str, Any] = dict(fields.get("chat_template_kwargs") or {})
    template |= {name: fields[name] for name in _TEMPLATE if name in fields}
    if "reasoning_effort" in fields:
        template.setdefault("enable_thinking", fields["reasoning_effort"] != "none")
    return question | ({"chat_template_kwargs": template} if template else {})


def idle_slots(told: Any) -> list[int]:
    """Of llama.cpp's ``/slots``, those at which nothing runs."""
    slots = [slot for slot in told if isinstance(slot, dict)] if isinstance(told, list) else []
    return [slot["id"] for slot in slots if isinstance(slot.get("id"), int) and slot.get("is_processing") is False]
