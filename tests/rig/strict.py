"""What real servers refuse, refused by the scripted ones too: a translation that is nearly right does not pass.

``judge(kind, models)`` gives what ``Scripted`` asks before it answers. The texts are near enough to the originals for
code that reads them; the rules are those of vLLM 0.33, llama.cpp b11434, OpenAI, and Ollama 0.33.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from tests.rig.connection import Recorded
from tests.rig.script import Piece, Status
from tests.rig.strict_ollama import RefusedError, is_number, judge_ollama, require

Judge = Callable[[str, Recorded], Status | list[Piece] | None]

CONTEXT = 32768
_ROLES = {"system", "developer", "user", "assistant", "tool"}
_PARTS = {"text": "text", "image_url": "image_url", "input_audio": "input_audio"}
_RANGES = {
    "temperature": (0, 2),
    "top_p": (1e-9, 1),
    "min_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "repetition_penalty": (1e-9, 1e9),
    "top_k": (-1, 1e9),
    "max_tokens": (1, CONTEXT),
    "max_completion_tokens": (1, CONTEXT),
    "n": (1, 128),
}
_OLLAMA_POSTS = ("/api/chat", "/api/generate", "/api/embed", "/api/embeddings")


def judge(kind: str, models: Collection[str]) -> Judge:
    """The judge of a server of this kind, of ``BackendSpec``, that serves these models."""

    def decide(path: str, request: Recorded) -> Status | None:
        if request.method != "POST" or not (path.startswith("/v1/") or path == "/infill" or path in _OLLAMA_POSTS):
            return None
        try:
            body = request.json()
            require(isinstance(body, dict), "the body must be an object")
            if kind == "ollama":
                judge_ollama(path, body, models)
            elif path != "/infill":
                require(
                    request.headers.get("content-type", "").startswith("application/json"),
                    "Unsupported Media Type: Only 'application/json' is allowed",
                )
                _openai(kind, path, body, models)
        except RefusedError as refused:
            return Status(refused.status, _error(kind, str(refused), refused.status))
        except ValueError:
            return Status(400, _error(kind, "invalid JSON", 400))
        return None

    return decide


def _error(kind: str, message: str, status: int) -> dict[str, Any]:
    if kind == "ollama":
        return {"error": message}
    code: Any = None if kind == "openai" else status
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


def _openai(kind: str, path: str, body: dict[str, Any], models: Collection[str]) -> None:
    if kind != "llamacpp":
        require(body.get("model") in models, f"The model `{body.get('model')}` does not exist.", 404)
        for name, value in body.items():
            require(value is not None, f"1 validation error: '{name}' must not be null")
    if path == "/v1/embeddings":
        require(body.get("input") not in (None, "", []), "'input' must not be empty")
        require(body.get("encoding_format", "float") in ("float", "base64"), "unknown encoding_format")
        return
    _numbers(kind, body)
    _stops(kind, body)
    require("stream_options" not in body or body.get("stream") is True or kind == "llamacpp", "stream_options")
    if path == "/v1/completions":
        require(isinstance(body.get("prompt"), str | list), "'prompt' is missing")
        return
    require(bool(body.get("messages")), "'messages' is missing")
    for message in body["messages"]:
        _message(kind, message)
    _tools(kind, body)
    _formats(kind, body)
    if body.get("top_logprobs"):
        require(body.get("logprobs") is True, "when using `top_logprobs`, `logprobs` must be set to true.")
    if kind == "llamacpp":
        _llama(body)
    elif kind == "vllm":
        both = body.get("continue_final_message") and body.get("add_generation_prompt", True)
        require(not both, "Cannot set both `continue_final_message` and `add_generation_prompt` to True.")


def _numbers(kind: str, body: dict[str, Any]) -> None:
    for name in body.keys() & _RANGES.keys():
        least, most = _RANGES[name]
        require(is_number(body[name]), f"{name} must be a number")
        if kind != "llamacpp":
            require(least <= body[name] <= most, f"{name} must be in [{least}, {most}], got {body[name]}.")
    for name in ("stream", "logprobs", "echo", "parallel_tool_calls"):
        boolean = isinstance(body.get(name, False), bool) or (name == "logprobs" and "prompt" in body)
        require(boolean, f"{name} must be a boolean")
    require(isinstance(body.get("seed", 0), int), "seed must be an integer")


def _stops(kind: str, body: dict[str, Any]) -> None:
    stops = body.get("stop", [])
    stops = [stops] if isinstance(stops, str) else stops
    require(isinstance(stops, list) and all(isinstance(stop, str) for stop in stops), "stop must be texts")
    if kind != "llamacpp":
        require(len(stops) <= 4, "stop: at most 4 are supported")
        require("" not in stops, "stop cannot contain an empty string.")


def _message(kind: str, message: Any) -> None:
    require(isinstance(message, dict) and message.get("role") in _ROLES, "unknown role")
    content, calls = message.get("content"), message.get("tool_calls")
    require("content" in message or bool(calls), "All messages must contain 'content'")
    require(content is not None or message["role"] == "assistant", "content must not be null")
    require(isinstance(content, str | list | None), "content must be a text or a list of parts")
    for part in content if isinstance(content, list) else []:
        needed = _PARTS.get(part.get("type"), "")
        require(needed in part, f"unknown part {part.get('type')!r}")
        if needed == "image_url":
            require(isinstance(part["image_url"], dict) and "url" in part["image_url"], "image_url must have a url")
    require(calls is None or (isinstance(calls, list) and calls != []), "tool_calls must not be empty")
    for call in calls or []:
        require(call.get("type") == "function" and bool(call.get("id")), "tool call without type or id")
        require(isinstance(call["function"].get("arguments"), str), "arguments must be a text")
    require(message["role"] != "tool" or isinstance(message.get("tool_call_id"), str), "tool_call_id is missing")


def _tools(kind: str, body: dict[str, Any]) -> None:
    tools = body.get("tools")
    if "tool_choice" in body:
        require(bool(tools), "When using `tool_choice`, `tools` must be set.")
    if tools is None:
        return
    require(isinstance(tools, list), "tools must be a list")
    require(tools != [] or kind == "llamacpp", "[] is too short - 'tools'")
    for tool in tools:
        function = tool.get("function")
        require(tool.get("type") == "function" and isinstance(function, dict), "a tool must be a function")
        require(isinstance(function.get("name"), str) and function["name"] != "", "a tool must have a name")
        require(isinstance(function.get("parameters", {}), dict), "parameters must be an object")
    require("structured_outputs" not in body or not isinstance(body.get("tool_choice"), dict), "one constraint only")


def _formats(kind: str, body: dict[str, Any]) -> None:
    wanted = body.get("response_format", {"type": "text"})
    require(isinstance(wanted, dict), "response_format must be an object")
    known = {"text", "json_object", "json_schema"} | ({"structural_tag"} if kind == "vllm" else set())
    require(wanted.get("type") in known, "response_format type must be known")
    if wanted["type"] == "json_schema":
        schema = wanted.get("json_schema")
        require(isinstance(schema, dict) and isinstance(schema.get("schema"), dict), "json_schema is missing")
        require(bool(schema.get("name")) or kind == "llamacpp", "json_schema must have a name")
    if body.get("echo") or kind != "llamacpp":
        return
    require(not (body.get("grammar") and body.get("tools")), "Cannot use custom grammar constraints with tools.")


def _llama(body: dict[str, Any]) -> None:
    messages = body["messages"]
    for name in ("enable_thinking",):
        value = (body.get("chat_template_kwargs") or {}).get(name, True)
        require(isinstance(value, bool), f"invalid type for '{name}' (expected boolean)")
    require(
        not (body.get("logprobs") and body.get("tools") and body.get("stream")),
        "logprobs is not supported with tools + stream",
    )
    require(body.get("repeat_last_n", 0) >= 0, "repeat_last_n must be >= 0")
    require(body.get("n", 1) <= 4, "n must not exceed the slots")
    two = len(messages) > 1 and messages[-1]["role"] == messages[-2]["role"] == "assistant"
    require(not two, "Cannot have 2 or more assistant messages at the end of the list.")
    fills = messages[-1]["role"] == "assistant" and messages[-1].get("tool_calls")
    require(not fills, "Cannot prefill a message with tool calls")
