"""What a server tells of itself: its models, its version, its load."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256

from simulate.engine import BLOCK_TOKENS
from simulate.site import OWNER, VERSION, Site

CAPABILITIES = ["completion", "tools", "thinking"]
SIZE_BYTES = 16_300_000_000
PARAMETERS = 14_800_000_000
KEEP_S = 300.0


def timestamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def openai_models(site: Site) -> dict[str, object]:
    """``GET /v1/models``"""
    cards: list[dict[str, object]] = [
        {
            "id": model,
            "object": "model",
            "created": int(site.started_at.timestamp()),
            "owned_by": OWNER,
            "root": model,
            "parent": None,
            "max_model_len": site.context_length,
            "permission": [],
            "simulated": True,
        }
        for model in site.models
    ]
    return {"object": "list", "data": cards}


def _details(site: Site, context_length: int) -> dict[str, object]:
    return {
        "parent_model": "",
        "format": "simulated",
        "family": "simulated",
        "families": ["simulated"],
        "parameter_size": "14.8B",
        "quantization_level": "Q8_0" if site.kind == "ollama" else "FP8",
        "context_length": context_length,
    }


def _entry(site: Site, model: str, context_length: int) -> dict[str, object]:
    return {
        "name": model,
        "model": model,
        "size": SIZE_BYTES,
        "digest": sha256(model.encode()).hexdigest(),
        "details": _details(site, context_length),
        "simulated": True,
    }


def ollama_tags(site: Site) -> dict[str, object]:
    """``GET /api/tags``"""
    modified = timestamp(site.started_at)
    entries = [
        _entry(site, model, site.context_length) | {"modified_at": modified, "capabilities": CAPABILITIES}
        for model in site.models
    ]
    return {"models": entries}


def ollama_ps(site: Site) -> dict[str, object]:
    """``GET /api/ps``"""
    default = datetime.now(UTC) + timedelta(seconds=KEEP_S)
    entries = [
        _entry(site, model, length)
        | {
            "expires_at": timestamp(site.expires_at.get(model, default)),
            "size_vram": SIZE_BYTES,
            "context_length": length,
        }
        for model, length in site.loaded()
    ]
    return {"models": entries}


def ollama_show(site: Site, model: str) -> dict[str, object]:
    """``POST /api/show``"""
    return {
        "license": "",
        "modelfile": f"# {model} is simulated\nFROM {model}\n",
        "parameters": f"{'num_ctx':<30} {site.context_length}",
        "template": "{{ .Prompt }}",
        "details": _details(site, site.context_length),
        "model_info": {
            "general.architecture": "simulated",
            "general.basename": model,
            "general.parameter_count": PARAMETERS,
            "simulated.context_length": site.context_length,
        },
        "capabilities": CAPABILITIES,
        "modified_at": timestamp(site.started_at),
        "simulated": True,
    }


def llamacpp_props(site: Site) -> dict[str, object]:
    """``GET /props``"""
    return {
        "default_generation_settings": {"n_ctx": site.context_length},
        "total_slots": site.profile.slots,
        "model_path": site.models[0],
        "modalities": {"vision": False, "audio": False},
        "build_info": VERSION,
        "is_sleeping": False,
        "simulated": True,
    }


def vllm_metrics(site: Site) -> bytes:
    """``GET /metrics``, in Prometheus' text form."""
    engine = site.driver.engine
    label = f'{{engine="0",model_name="{site.models[0]}"}}'
    blocks = engine.capacity // BLOCK_TOKENS
    gauges = (
        ("num_requests_running", len(engine.running)),
        ("num_requests_waiting", engine.waiting),
        ("kv_cache_usage_perc", round(engine.kv_usage, 6)),
    )
    counters = (
        ("request_success", engine.finished),
        ("num_preemptions", engine.preemptions),
        ("prompt_tokens", engine.prompt_tokens),
        ("generation_tokens", engine.generated_tokens),
        ("prefix_cache_queries", engine.prompt_tokens),
        ("prefix_cache_hits", engine.cached_tokens),
    )
    lines = ["# This engine is simulated."]
    for name, value in gauges:
        lines += [f"# TYPE vllm:{name} gauge", f"vllm:{name}{label} {value}"]
    for name, total in counters:
        lines += [f"# TYPE vllm:{name} counter", f"vllm:{name}_total{label} {total}"]
    lines += ["# TYPE vllm:cache_config_info gauge"]
    lines += [
        f'vllm:cache_config_info{{block_size="{BLOCK_TOKENS}",enable_prefix_caching="True",engine="0",'
        f'num_gpu_blocks="{blocks}"}} 1.0'
    ]
    return ("\n".join(lines) + "\n").encode()
