"""An engine that can be checked: it says the marker that it finds in the prompt, then numbered words.

The prompt may hold ``marker:XYZ`` (echoed first), ``words:N`` (how many numbered words, 5 unless told), ``thoughts:N``
(how many words of thinking, 3 unless told), ``say:XYZ`` (said in place of all that) and ``call:NAME`` (a tool of that
name is called, if there is one). It thinks unless it is told not to, in the words of its kind
of server; a model that cannot think never does. A trailing assistant message is continued.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

from tests.rig import text
from tests.rig.answers import asked_call, call_pieces, likely
from tests.rig.script import DONE, Flavour, Piece, Sleep, Status, chunk, done, line, usage


def texts(body: dict[str, Any]) -> str:
    """All words of a request's messages."""
    words = []
    for message in body.get("messages", []):
        content = message.get("content") or ""
        words.append(content if isinstance(content, str) else " ".join(part.get("text", "") for part in content))
    return "\n".join(words)


def number(name: str, text: str, default: int) -> int:
    found = re.findall(rf"{name}:(\d+)", text)
    return int(found[-1]) if found else default


def marker(text: str) -> str:
    found = re.findall(r"marker:([\w-]+)", text)
    return found[-1] if found else "ok"


def expected(prompt: str) -> str:
    """What a whole answer to the prompt reads, thinking apart."""
    return "".join([marker(prompt), *(f" {i}" for i in range(1, number("words", prompt, 5) + 1))])


class Engine:
    def __init__(self, kind: str, *, thinks: bool = True, delay_s: float = 0.0, fixed: str | None = None) -> None:
        """``kind``: of ``BackendSpec``. ``delay_s``: before each piece. ``fixed``: say just this, whatever is asked."""
        self.kind = kind
        self.flavour: Flavour = "ollama" if kind == "ollama" else "openai"
        self.thinks = thinks
        self.delay_s = delay_s
        self.fixed = fixed

    def _thinking(self, body: dict[str, Any]) -> bool:
        if self.kind == "ollama":
            return self.thinks and body.get("think") is not False
        kwargs = body.get("chat_template_kwargs") or {}
        return self.thinks and kwargs.get("enable_thinking", True) and body.get("reasoning_effort") != "none"

    def _plan(self, body: dict[str, Any]) -> tuple[list[str], list[str], str]:
        """Thoughts, words and the reason of the end."""
        if self.fixed is not None:
            return [], [self.fixed], "stop"
        prompt = texts(body)
        thoughts = (
            [f"thought {i} " for i in range(1, number("thoughts", prompt, 3) + 1)] if self._thinking(body) else []
        )
        words = [marker(prompt), *(f" {i}" for i in range(1, number("words", prompt, 5) + 1))]
        words = re.findall(r"say:(\S+)", prompt)[-1:] or words
        last = (body.get("messages") or [{}])[-1]
        if last.get("role") == "assistant" and (self.kind != "vllm" or body.get("continue_final_message")):
            said, thoughts = texts({"messages": [last]}), []
            while words and said.startswith(words[0]):
                said = said[len(words[0]) :]
                words.pop(0)
            if words:
                words[0] = words[0][len(said) :]
        options = body.get("options") or {}
        most = body.get("max_tokens") or body.get("max_completion_tokens") or options.get("num_predict")
        if most is not None and 0 < most < len(thoughts) + len(words):
            return thoughts[:most], words[: max(0, most - len(thoughts))], "length"
        return thoughts, words, "stop"

    async def script(self, raw: bytes, path: str = "") -> AsyncIterator[Piece]:
        """The answer to a request's body, streamed or whole as it asks. ``path``: where it came, unless to chats."""
        body = json.loads(raw)
        if path in text.TEXTS:
            for piece in self._text(path, body):
                yield piece
            return
        if (tool := asked_call(body)) is not None:
            for piece in call_pieces(self.flavour, tool):
                yield piece
            return
        thoughts, words, reason = self._plan(body)
        counts = (len(texts(body).split()), len(thoughts) + len(words))
        if not body.get("stream", self.flavour == "ollama"):
            yield Sleep(self.delay_s * counts[1])
            yield Status(200, self._whole("".join(thoughts), "".join(words), reason, counts))
            return
        if self.flavour == "ollama":
            for thought in thoughts:
                yield Sleep(self.delay_s)
                yield line(thinking=thought)
            for word in words:
                yield Sleep(self.delay_s)
                yield line(word, logprobs=likely(word)) if body.get("logprobs") else word
            yield done(reason, prompt=counts[0], completion=counts[1])
            return
        name = "reasoning_content" if self.kind == "llamacpp" else "reasoning"
        deltas = [{"role": "assistant", "content": ""}, *({name: thought} for thought in thoughts)]
        deltas += [{"content": word} for word in words]
        answers = range(body.get("n") or 1)
        for delta in deltas:
            yield Sleep(self.delay_s)
            for index in answers:
                told = chunk(delta, index=index)
                if body.get("logprobs") and delta.get("content"):
                    told["choices"][0]["logprobs"] = {"content": likely(delta["content"])}
                yield told
        for index in answers:
            yield chunk({}, reason, index=index)
        if (body.get("stream_options") or {}).get("include_usage"):
            yield usage(counts[0], counts[1] * len(answers))
        yield DONE

    def _text(self, path: str, body: dict[str, Any]) -> list[Piece]:
        prompt = text.prompt_of(path, body)
        words = [marker(prompt), *(f" {i}" for i in range(1, number("words", prompt, 5) + 1))]
        llama = self.kind == "llamacpp"
        most = text.most_of(path, body, llama=llama)
        reason = "length" if most is not None and most < len(words) else "stop"
        words = [self.fixed] if self.fixed is not None else words[:most]
        return text.text_pieces(path, body, words, reason, llama=llama, delay_s=self.delay_s)

    def _whole(self, thought: str, said: str, reason: str, counts: tuple[int, int]) -> dict[str, Any]:
        if self.flavour == "ollama":
            whole = done(reason, prompt=counts[0], completion=counts[1])
            whole["message"] = {"role": "assistant", "content": said} | ({"thinking": thought} if thought else {})
            return whole
        message = {"role": "assistant", "content": said} | ({"reasoning": thought} if thought else {})
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return usage(*counts) | {"object": "chat.completion", "choices": [choice]}


def pages(
    kind: str, models: list[str], *, slots: int = 4, context: int = 32768, simulated: bool = False
) -> dict[str, Any]:
    """What a server of this kind says on its GET routes (and on ``/api/show``), by path."""
    mark = {"simulated": True} if simulated else {}
    if kind == "ollama":
        details = {
            "format": "gguf",
            "family": "qwen3",
            "families": ["qwen3"],
            "parameter_size": "8.2B",
            "quantization_level": "Q4_K_M",
        }
        told = {"modified_at": "2026-11-01T08:00:00Z", "size": 5_200_000_000, "details": details, **mark}
        tags = [{"name": m, "model": m, "digest": f"digest-of-{m}", **told} for m in models]
        show = {
            "details": details,
            "capabilities": ["completion", "tools", "thinking"],
            "model_info": {
                "general.architecture": "qwen3",
                "general.parameter_count": 8_200_000_000,
                "qwen3.context_length": context,
                "qwen3.embedding_length": 4096,
            },
        }
        return {
            "/api/tags": {"models": tags},
            "/api/ps": {"models": [{"name": m, "model": m} for m in models[:1]]},
            "/api/version": {"version": "0.33.0"},
            "/api/show": show,
        }
    owner = {"vllm": "vllm", "llamacpp": "llamacpp"}.get(kind, "somebody")
    cards: list[dict[str, Any]] = [{"id": m, "object": "model", "created": 1, "owned_by": owner} | mark for m in models]
    answers: dict[str, Any] = {"/v1/models": {"object": "list", "data": cards}, "/health": {"status": "ok"}}
    if kind == "vllm":
        for card in cards:
            card |= {"root": card["id"], "parent": None, "max_model_len": context}
        answers["/version"] = {"version": "0.33.0"}
        answers["/metrics"] = Status(200, METRICS, "text/plain; version=0.0.4")
    if kind == "llamacpp":
        meta = {"n_ctx_train": 2 * context, "n_params": 8_200_000_000, "size": 5_200_000_000, "n_embd": 4096}
        for card in cards:
            card["meta"] = meta
        answers["/props"] = {
            "total_slots": slots,
            "default_generation_settings": {"n_ctx": context},
            "modalities": {"vision": False, "audio": False},
            "chat_template": "{% if enable_thinking %}<think>{% endif %}{{ tools }}",
        }
        answers["/slots"] = [{"id": i, "is_processing": False, "n_ctx": context} for i in range(slots)]
    return answers


METRICS = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting{engine="1",model_name="m"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 2.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",num_gpu_blocks="1000"} 1.0
"""
