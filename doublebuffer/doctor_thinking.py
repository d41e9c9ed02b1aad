"""Does an engine whose model thinks keep its thinking apart from its answers. It costs one answer of a few tokens."""

from __future__ import annotations

from typing import Any

import httpx

from buffer.family import Family, family
from doublebuffer.doctor_report import Finding, fine, wrong
from doublebuffer.starting import Seen

ANSWER_TOKENS = 16
PATIENCE_S = 20.0
MOST_MODELS = 4


async def thinking_findings(topic: str, seen: Seen) -> list[Finding]:
    """Of a vLLM: asks each of its models that thinks."""
    if seen.spec.kind != "vllm" or seen.probe is None:
        return []
    findings: list[Finding] = []
    headers = {"authorization": f"Bearer {seen.spec.api_key}"} if seen.spec.api_key else {}
    async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False, headers=headers) as client:
        for model in seen.probe.models[:MOST_MODELS]:
            known = family(model.id)
            if not (known.known and known.can_think and known.open_tag):
                continue
            apart = await _apart(client, seen.spec.url, model.id, known)
            if apart is False:
                findings.append(
                    wrong(
                        topic,
                        f"{model.id!r} thinks, and says its thoughts within its answers: no reasoning parser is set",
                        "start vLLM with --reasoning-parser and the name of its family, such as qwen3 or deepseek_r1",
                    )
                )
            elif apart:
                findings.append(fine(topic, f"{model.id!r} keeps its thinking apart from its answers"))
    return findings


async def _apart(client: httpx.AsyncClient, url: str, model: str, known: Family) -> bool | None:
    """None: it did not think, or did not answer."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": ANSWER_TOKENS,
        "temperature": 0,
    }
    if known.switch in ("enable_thinking", "thinking"):
        body["chat_template_kwargs"] = {known.switch: True}
    try:
        answer = await client.post(f"{url}/v1/chat/completions", json=body)
        message = answer.json()["choices"][0]["message"] if answer.status_code == 200 else {}
    except (httpx.HTTPError, ValueError, LookupError, TypeError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    if message.get("reasoning_content") or message.get("reasoning"):
        return True
    content = message.get("content")
    text = content if isinstance(content, str) else ""
    return False if known.open_tag in text or (known.prompt_opens and text.strip()) else None
