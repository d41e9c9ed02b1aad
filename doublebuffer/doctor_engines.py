"""The back ends: is each what its settings say, and does it hold what it is sent."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from urllib.parse import urlsplit

from buffer.backend import BackendSpec
from buffer.setting_values import names, without_password
from doublebuffer.doctor_identity import TITLES, Identity, identify, roots
from doublebuffer.doctor_report import Finding, fine, note, wrong
from doublebuffer.doctor_thinking import thinking_findings
from doublebuffer.starting import Seen

REAL = "start a real engine in its place where answers have to mean something"
_HERE = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}


async def engine_findings(seen: Seen) -> list[Finding]:
    """Of one back end."""
    spec = seen.spec
    topic = f"back end {spec.name} ({spec.kind})"
    where = without_password(spec.url)
    if seen.probe is None and spec.spare:
        return [fine(topic, "a spare that does not run at the moment")]
    found = await identify(spec, spec.url)
    if (found is not None and found.kind == "doublebuffer") or (seen.probe and seen.probe.doublebuffer):
        return [wrong(topic, f"{where} is Doublebuffer itself", "give the address of an engine")]
    if seen.probe is None:
        return [await _away(topic, where, seen, found)]
    told = found.kind if found is not None and found.kind in TITLES else "openai"
    # A simulated engine is of each kind that it is taken for.
    if "openai" not in (told, spec.kind) and told != spec.kind and not seen.probe.simulated:
        return [wrong(topic, f"{where} is {TITLES[told]}", f'set kind = "{told}" for it')]
    models = seen.models()
    if not models:
        remedy = "ollama pull a model" if spec.kind == "ollama" else "start it with a model"
        return [wrong(topic, f"{where} answers, but has no model", remedy)]
    slots = f", {seen.probe.slots} slots" if seen.probe.slots else ""
    answers = f"{where} answers with {names(models)}{slots}"
    findings = [note(topic, f"{answers}, SIMULATED", REAL) if seen.probe.simulated else fine(topic, answers)]
    upstream = {model.id for model in seen.probe.models}
    findings += [
        wrong(
            topic,
            f"{client!r} stands for {wanted!r}, which it does not have",
            f"correct models of back end {spec.name} in DOUBLEBUFFER_BACKENDS",
        )
        for client, wanted in spec.models.items()
        if wanted not in upstream
    ]
    findings += _memory(topic, seen)
    findings += await thinking_findings(topic, seen)
    return findings


async def _away(topic: str, where: str, seen: Seen, found: Identity | None) -> Finding:
    spec = seen.spec
    path = urlsplit(spec.url).path
    if path:
        root = roots(spec.url)
        behind = await identify(spec, root)
        if behind is not None and behind.kind in TITLES:
            title = TITLES[behind.kind]
            return wrong(
                topic,
                f"at {where} there is nothing, and at {without_password(root)} there is {title}",
                f"leave {path} out of its url",
            )
    if found is not None:
        if found.kind in TITLES:
            return wrong(topic, f"{where} is {TITLES[found.kind]}", f'set kind = "{found.kind}" for it')
        what = f"something else ({found.shown})" if found.shown else "something else"
        return wrong(
            topic,
            f"at {where} there is {what}, and no engine that answers: {seen.trouble}",
            "correct the address or the port in its url, or its api_key",
        )
    hint = "; inside a container, 127.0.0.1 is the container itself" if _in_container(spec.url) else ""
    return wrong(
        topic, f"{where} gives no answer: {seen.trouble}", f"start it there, or correct its url, kind or api_key{hint}"
    )


def _in_container(url: str) -> bool:
    return os.path.exists("/.dockerenv") and "127.0.0.1" in url


def _memory(topic: str, seen: Seen) -> list[Finding]:
    """A prompt as long as its model allows has to fit."""
    spec, probe = seen.spec, seen.probe
    assert probe is not None
    tokens = spec.kv_tokens or probe.kv_tokens or 0
    longest = max((model.context_length for model in probe.models), default=0)
    if spec.kind == "ollama" and spec.num_ctx:
        longest = min(longest, spec.num_ctx) if longest else spec.num_ctx
    if not tokens or tokens >= longest:
        return []
    if spec.kv_tokens:
        remedy = "correct kv_tokens, or leave it out where the engine tells by itself"
    elif spec.kind == "vllm":
        remedy = f"give it more memory (--gpu-memory-utilization), or start it with --max-model-len {tokens}"
    else:
        remedy = "give it more memory, or a shorter context"
    text = f"its memory holds {tokens} tokens, and its model's context is {longest}: a prompt near that never fits"
    return [wrong(topic, text, remedy)]


def address_findings(specs: Sequence[BackendSpec]) -> list[Finding]:
    """Two back ends with one address are one engine that is sent twice what it takes."""
    by_address: dict[tuple[str, int | None, str], list[str]] = defaultdict(list)
    for spec in specs:
        parts = urlsplit(spec.url)
        host = (parts.hostname or "").lower()
        port = parts.port or (443 if parts.scheme == "https" else 80)
        by_address["localhost" if host in _HERE else host, port, parts.path.rstrip("/")].append(spec.name)
    return [
        wrong(
            "back ends",
            f"{names(found)} have the same address, so one engine is sent the work of {len(found)}",
            "leave one of them, or correct the url of the other",
        )
        for found in by_address.values()
        if len(found) > 1
    ]


def window_findings(seen: Seen, prompts: dict[str, int]) -> list[Finding]:
    """Whether an Ollama's context is as long as what comes in. ``prompts``: queue of a model → its longest prompt."""
    spec = seen.spec
    if spec.kind != "ollama" or seen.probe is None:
        return []
    topic = f"back end {spec.name} (ollama)"
    window = spec.num_ctx or OLLAMA_WINDOW
    said = f"num_ctx is {spec.num_ctx}" if spec.num_ctx else f"num_ctx is unset, and Ollama's own is {window}"
    longest = max(prompts.values(), default=0)
    if longest > window:
        return [
            wrong(
                topic,
                f"{said}, but prompts of up to {longest} tokens came in: Ollama cuts off their beginning, unsaid",
                f"set num_ctx = {_rounded(longest)} for it, if its memory allows that",
            )
        ]
    able = max((model.context_length for model in seen.probe.models), default=0)
    if able > window:
        text = f"{said}, and a model there could read {able}; longer prompts lose their beginning, unsaid"
        return [note(topic, text, "set num_ctx for it to what your prompts need, as far as its memory allows")]
    return []


OLLAMA_WINDOW = 4096


def _rounded(tokens: int) -> int:
    """A power of two that has room for an answer too."""
    return int(1 << int(tokens * 1.25).bit_length())
