"""Pure: fields beyond the common ones, for the engines that know them; and constraints on the answer's form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from backends.base import BackendError
from buffer.backend import Kind
from buffer.job import Chat

_EVERYWHERE = ("logit_bias", "user")
_STRUCTURAL_TAG = "response_format"
"""Of the forms of this field only a structural tag is carried here; all others are a ``Chat.format``."""
_KNOWN: dict[Kind, tuple[str, ...]] = {
    "vllm": (
        "use_beam_search", "length_penalty", "stop_token_ids", "include_stop_str_in_output", "ignore_eos", "min_tokens",
        "skip_special_tokens", "spaces_between_special_tokens", "truncate_prompt_tokens", "truncation_side",
        "allowed_token_ids", "bad_words", "repetition_detection", "add_generation_prompt", "continue_final_message",
        "add_special_tokens", "documents", "thinking_token_budget", "cache_salt", "vllm_xargs", "chat_template_kwargs",
    ),
    "llamacpp": (
        "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers",
        "xtc_probability", "xtc_threshold", "mirostat", "mirostat_tau", "mirostat_eta", "dynatemp_range",
        "dynatemp_exponent", "samplers", "grammar", "json_schema", "ignore_eos", "n_keep", "cache_prompt",
        "t_max_predict_ms", "lora", "thinking_budget_tokens", "reasoning_budget_tokens", "reasoning_budget_message",
        "chat_template_kwargs",
    ),
    "openai": (
        "service_tier", "metadata", "store", "verbosity", "prediction", "modalities", "safety_identifier",
        "prompt_cache_key", "chat_template_kwargs", "structured_outputs", "guided_json", "guided_regex",
        "guided_choice", "guided_grammar", "ignore_eos", "min_tokens", "stop_token_ids", "skip_special_tokens",
    ),
    "ollama": (),
}  # fmt: skip
_LLAMA_OPTIONS = {
    "mirostat": "mirostat",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
    "num_keep": "n_keep",
}

_GUIDED = {
    "guided_json": "json",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
    "guided_json_object": "json_object",
}
"""Fields of older vLLM, which newer ones accept and pass over: the answer would be unconstrained without a word."""


def extra_fields(chat: Chat, kind: Kind) -> dict[str, Any]:
    """What of ``chat.extra`` and ``chat.options`` an engine of this kind is told. Raises ``BackendError``."""
    if not (chat.extra or chat.options):
        return {}
    fields: dict[str, Any] = {name: chat.extra[name] for name in (*_EVERYWHERE, *_KNOWN[kind]) if name in chat.extra}
    if _STRUCTURAL_TAG in chat.extra:
        if kind == "llamacpp":
            raise _impossible({"structural_tag": None}, _STRUCTURAL_TAG)
        fields[_STRUCTURAL_TAG] = chat.extra[_STRUCTURAL_TAG]
    if kind == "llamacpp":
        for option, name in _LLAMA_OPTIONS.items():
            if option in chat.options:
                fields.setdefault(name, chat.options[option])
        fields |= _llama_constraint(constraint(chat.extra))
    elif kind == "vllm" and (wanted := constraint(chat.extra)):
        fields["structured_outputs"] = wanted
    return fields


def constraint(extra: Mapping[str, Raw]) -> dict[str, Any]:
    """vLLM's ``structured_outputs``, also where the client used the older fields for it."""
    given = _plain(extra.get("structured_outputs"))
    if isinstance(given, dict):
        return {name: value for name, value in given.items() if value is not None}
    wanted = {new: value for old, new in _GUIDED.items() if (value := _plain(extra.get(old))) not in (None, False, "")}
    if isinstance(wanted.get("json"), str):
        wanted["json"] = _schema(wanted["json"])
    return wanted


def ollama_format(chat: Chat) -> Any:
    """Ollama's ``format``; None for no constraint. Raises ``BackendError`` for one that Ollama cannot keep."""
    if _STRUCTURAL_TAG in chat.extra:
        raise _impossible({"structural_tag": None}, _STRUCTURAL_TAG)
    if chat.format is not None:
        return chat.format.schema if chat.format.schema is not None else "json"
    wanted = constraint(chat.extra)
    if "json" in wanted:
        return wanted["json"]
    if wanted.get("json_object"):
        return "json"
    if wanted:
        raise _impossible(wanted)
    return None


def _llama_constraint(wanted: Mapping[str, Any]) -> dict[str, Any]:
    if "json" in wanted:
        return {"json_schema": wanted["json"]}
    if wanted.get("json_object"):
        return {"response_format": {"type": "json_object"}}
    if "grammar" in wanted:
        return {"grammar": wanted["grammar"]}
    if isinstance(wanted.get("choice"), list):
        return {"grammar": "root ::= " + " | ".join(json.dumps(str(choice)) for choice in wanted["choice"])}
    if wanted:
        raise _impossible(wanted)
    return {}


def _impossible(wanted: Mapping[str, Any], param: str = "structured_outputs") -> BackendError:
    kinds = ", ".join(sorted(wanted))
    message = f"The model's engine cannot constrain an answer by {kinds}."
    return BackendError(message, kind="client", status=400, code="unsupported_value", param=param)


def _plain(raw: Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)


def _schema(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        message = "'guided_json' is not valid JSON."
        raise BackendError(message, kind="client", status=400, code="", param="guided_json") from None
