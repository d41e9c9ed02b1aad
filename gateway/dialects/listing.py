"""Lists of models, in both dialects."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from msgspec import Struct

from buffer.backend import ModelInfo
from buffer.family import family
from buffer.names import model_key
from gateway.dialects.text import dump, instant

FOREVER = "2200-01-01T00:00:00Z"
"""When a model is unloaded that never is: far off, yet every client's calendar can shift it by its zone."""

_PADDED = 30
_SIZE = re.compile(r"(?<![a-z\d.])(\d+(?:\.\d+)?)b(?![a-z])")
_ARCHITECTURE = re.compile(
    r"(gpt-?oss|qwen|llama|gemma|mistral|mixtral|phi|glm|granite|deepseek|kimi|smollm|exaone|nemotron)-?(\d*)"
)
_GGUF = re.compile(r"(?<![a-z\d])(i?q\d(?:-[a-z\d]{1,2})*|mxfp4)(?![a-z\d])")
_TENSORS = re.compile(r"(?<![a-z\d])(fp8|fp4|nvfp4|awq|gptq|int4|int8|w4a16|w8a8|bf16)(?![a-z\d])")
# What the makers count; the names round it.
_QWEN3_SIZES = {"1.7": "2.0B", "4": "4.0B", "8": "8.2B", "14": "14.8B", "30": "30.5B", "32": "32.8B", "235": "235.1B"}


class Listed(Struct):
    """A model in a list."""

    name: str
    """The name to show, which clients then use."""
    info: ModelInfo
    owned_by: str = "library"


def tagged(name: str) -> str:
    """A name as Ollama shows it: with a tag, always."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def openai_models(models: Sequence[Listed], *, created: float) -> bytes:
    """``created``: seconds since 1970, the same on every call."""
    return dump({"object": "list", "data": [_openai(model, created) for model in models]})


def openai_model(model: Listed, *, created: float) -> bytes:
    return dump(_openai(model, created))


def _openai(model: Listed, created: float) -> dict[str, object]:
    shown: dict[str, object] = {
        "id": model.name,
        "object": "model",
        "created": int(created),
        "owned_by": model.owned_by,
    }
    if model.info.context_length:
        shown["max_model_len"] = model.info.context_length
    return shown


def ollama_tags(models: Sequence[Listed], *, created: float) -> bytes:
    """``/api/tags``, newest first. ``created``: the instant of models that tell none."""
    entries = [
        {
            **_identity(model),
            "modified_at": model.info.modified_at or instant(created),
            "capabilities": capabilities(model),
        }
        for model in models
    ]
    entries.sort(key=lambda entry: str(entry["name"]))
    entries.sort(key=lambda entry: str(entry["modified_at"]), reverse=True)
    return dump({"models": entries})


def ollama_ps(loaded: Sequence[tuple[Listed, float | None]]) -> bytes:
    """``/api/ps``: models in memory, each with the instant of its unloading, None for never. Longest-lived first."""
    order = sorted(loaded, key=lambda one: float("inf") if one[1] is None else one[1], reverse=True)
    entries = [
        {
            **_identity(model),
            "expires_at": FOREVER if expires_at is None else instant(expires_at),
            "size_vram": model.info.size,
            "context_length": model.info.context_length,
        }
        for model, expires_at in order
    ]
    return dump({"models": entries})


def ollama_show(model: Listed, *, created: float) -> bytes:
    """``/api/show``. ``model_info`` is always an object with the keys that pages read a model's context length by."""
    info = model.info
    architecture = _architecture(model)
    model_info: dict[str, object] = {
        "general.architecture": architecture,
        "general.basename": tagged(model.name).rpartition(":")[0],
    }
    numbers = {
        "general.parameter_count": info.parameter_count,
        f"{architecture}.context_length": info.context_length,
        f"{architecture}.embedding_length": info.embedding_length,
    }
    model_info |= {key: number for key, number in numbers.items() if number}
    return dump(
        {
            "license": "",
            "modelfile": f"FROM {tagged(model.name)}\n",
            "parameters": "num_ctx".ljust(_PADDED) + " " + str(info.context_length) if info.context_length else "",
            "template": "{{ .Prompt }}",
            "details": _details(model),
            "model_info": model_info,
            "capabilities": capabilities(model),
            "modified_at": info.modified_at or instant(created),
        }
    )


def capabilities(model: Listed) -> list[str]:
    """What the back end tells, or what the name lets expect. Pages show their buttons by it."""
    if model.info.capabilities:
        return list(model.info.capabilities)
    found = family(model.info.id or model.name)
    return ["completion", "tools", *(["thinking"] if found.known and found.can_think else [])]


def _identity(model: Listed) -> dict[str, object]:
    name = tagged(model.name)
    digest = (
        model.info.digest.removeprefix("sha256:") or hashlib.sha256(name.lower().encode("utf-8", "replace")).hexdigest()
    )
    return {"name": name, "model": name, "size": model.info.size, "digest": digest, "details": _details(model)}


def _details(model: Listed) -> dict[str, object]:
    info = model.info
    name = model_key(info.id or model.name).tail
    kind = info.family or _architecture(model)
    gguf, tensors = _GGUF.search(name), _TENSORS.search(name)
    quantization = gguf[1].replace("-", "_") if gguf else tensors[1] if tensors else ""
    details: dict[str, object] = {
        "parent_model": "",
        "format": info.format or ("gguf" if gguf or "gguf" in name else "safetensors" if tensors else ""),
        "family": kind,
        "families": [kind],
        "parameter_size": info.parameter_size or _parameters(info.parameter_count, name),
        "quantization_level": info.quantization or quantization.upper(),
    }
    if info.context_length:
        details["context_length"] = info.context_length
    if info.embedding_length:
        details["embedding_length"] = info.embedding_length
    return details


def _architecture(model: Listed) -> str:
    if model.info.architecture:
        return model.info.architecture
    if model.info.family:
        return model.info.family
    name = model_key(model.info.id or model.name).tail
    found = _ARCHITECTURE.search(name)
    if found:
        return found[1].replace("-", "") + found[2]
    return re.split(r"[^a-z\d]", name, maxsplit=1)[0] or "unknown"


def _parameters(count: int, name: str) -> str:
    if count >= 1_000_000_000:
        return f"{count / 1e9:.1f}B"
    if count:
        return f"{count / 1e6:.2f}M" if count >= 1_000_000 else f"{count / 1e3:.2f}K"
    size = _SIZE.search(name)
    if size is None:
        return ""
    return (_QWEN3_SIZES.get(size[1]) if "qwen3-" in name else None) or f"{size[1].upper()}B"
