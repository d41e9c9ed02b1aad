"""The bodies that the two APIs take, and what can be wrong with them. Fields that change nothing here are not named."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from simulate.cost import EngineKind
from simulate.instance import WORD, instance_of
from simulate.wire import HttpError

MAX_ANSWERS = 16
Body = TypeVar("Body", bound=Struct)
_DURATION = re.compile(r"(-?)((?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+)")
_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class ChatBody(Struct):
    """``POST /v1/chat/completions``. ``sim_*``: for benches, no server's own."""

    messages: list[dict[str, Any]]
    model: str = ""
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    reasoning: dict[str, Any] | None = None
    include_reasoning: bool = True
    continue_final_message: bool = False
    add_generation_prompt: bool = True
    ignore_eos: bool = False
    sim_output_tokens: int | None = None
    sim_tool_call: bool = False

    @property
    def most_tokens(self) -> int | None:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def thinks(self) -> bool:
        """On unless switched off, as with Qwen3; only the JSON value ``false`` switches the template."""
        switch = (self.chat_template_kwargs or {}).get("enable_thinking")
        if switch is not None:
            return switch is not False
        effort = (self.reasoning or {}).get("effort") or self.reasoning_effort
        return effort != "none"

    @property
    def named_tool(self) -> str:
        """The tool that ``tool_choice`` names; empty: none."""
        function = self.tool_choice.get("function") if isinstance(self.tool_choice, dict) else None
        return str(function.get("name", "")) if isinstance(function, dict) else ""

    @property
    def call(self) -> tuple[str, object] | None:
        """The tool to call, and arguments that fit it."""
        if not self.tools or not (self.tool_choice == "required" or self.named_tool or self.sim_tool_call):
            return None
        return call_of(self.tools, self.named_tool)

    @property
    def structured(self) -> object:
        form = self.response_format or {}
        if form.get("type") == "json_object":
            return {"simulated": True}
        schema = form.get("json_schema")
        return instance_of(schema.get("schema")) if isinstance(schema, dict) else None


class CompletionBody(Struct):
    """``POST /v1/completions``"""

    prompt: str | list[Any]
    model: str = ""
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    max_tokens: int | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    echo: bool | None = None
    suffix: str | None = None
    ignore_eos: bool = False
    sim_output_tokens: int | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


class OllamaBody(Struct):
    """``POST /api/chat`` and ``POST /api/generate``."""

    model: str = ""
    messages: list[dict[str, Any]] | None = None
    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    template: str | None = None
    context: list[int] | None = None
    images: list[str] | None = None
    raw: bool = False
    stream: bool | None = None
    format: str | dict[str, Any] | None = None
    options: dict[str, Any] | None = None
    think: bool | str | None = None
    tools: list[dict[str, Any]] | None = None
    keep_alive: float | str | None = None
    truncate: bool | None = None

    @property
    def thinks(self) -> bool:
        """Raises ``HttpError`` on a word that is no level."""
        if isinstance(self.think, str) and self.think not in ("low", "medium", "high", "max"):
            raise HttpError(
                400, f'invalid think value: "{self.think}" (must be "high", "medium", "low", "max", true, or false)'
            )
        # A raw prompt has no template that would let the model think.
        return self.think is not False and not self.raw

    @property
    def structured(self) -> object:
        if self.format == "json":
            return {"simulated": True}
        return instance_of(self.format) if isinstance(self.format, dict) else None

    @property
    def stops(self) -> tuple[str, ...]:
        stop = (self.options or {}).get("stop") or ()
        return (stop,) if isinstance(stop, str) else tuple(str(one) for one in stop)

    def whole_number(self, option: str) -> int | None:
        """An option that is a number. Raises ``HttpError`` on one that is none."""
        value = (self.options or {}).get(option)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise HttpError(400, f'option "{option}" must be of type integer')
        return int(value)

    @property
    def keep_s(self) -> float | None:
        """Seconds that the model is to stay, negative for ever; None: the default. Raises ``HttpError``."""
        if not isinstance(self.keep_alive, str):
            return self.keep_alive
        found = _DURATION.fullmatch(self.keep_alive)
        if found is None:
            raise HttpError(400, f'time: invalid duration "{self.keep_alive}"')
        parts = re.findall(r"([\d.]+)(ns|us|µs|ms|s|m|h)", found[2])
        seconds = sum(float(number) * _UNITS_S[unit] for number, unit in parts)
        return -seconds if found[1] else seconds


class NameBody(Struct):
    """``POST /api/show``"""

    model: str = ""
    name: str = ""


def call_of(tools: list[dict[str, Any]], name: str = "") -> tuple[str, object]:
    """The tool of that name, or else the first, with arguments that fit its schema."""
    functions = [tool["function"] for tool in tools if isinstance(tool.get("function"), dict)]
    chosen = next((one for one in functions if one.get("name") == name), functions[0] if functions else {})
    return str(chosen.get("name") or name or WORD), instance_of(chosen.get("parameters") or {"type": "object"})


def check_like_vllm(body: ChatBody, context_length: int) -> None:
    """What vLLM refuses. Raises ``HttpError``."""

    def refuse(unless: bool, param: str, message: str) -> None:
        if not unless:
            raise HttpError(400, message, kind="BadRequestError", param=param)

    refuse(bool(body.messages), "messages", "Cannot apply chat template to an empty conversation.")
    both = body.continue_final_message and body.add_generation_prompt
    message = "Cannot set both `continue_final_message` and `add_generation_prompt` to True."
    refuse(not both, "add_generation_prompt", message)
    refuse(body.tools is None or bool(body.tools), "tools", "tools must not be an empty list; leave it out")
    refuse(body.tool_choice in (None, "none") or bool(body.tools), "tool_choice", "tool_choice needs tools")
    refuse(body.stream_options is None or bool(body.stream), "stream_options", "stream_options needs stream to be true")
    refuse(len(body.stops) <= 4 and "" not in body.stops, "stop", "stop takes up to 4 strings, none of them empty")
    refuse(0 <= (body.temperature or 0.0) <= 2, "temperature", "temperature must be in [0, 2]")
    refuse(body.top_p is None or 0 < body.top_p <= 1, "top_p", "top_p must be in (0, 1]")
    refuse(body.n is None or 1 <= body.n <= MAX_ANSWERS, "n", f"n must be between 1 and {MAX_ANSWERS}")
    most = body.most_tokens
    refuse(most is None or most >= 1, "max_tokens", f"max_tokens must be at least 1, got {most}.")
    if most is not None and most > context_length:
        raise HttpError(
            400,
            f"max_tokens={most} cannot be greater than max_model_len={context_length}.",
            kind="BadRequestError",
            param="max_tokens",
        )


def decode(body: bytes, form: type[Body], kind: EngineKind) -> Body:
    """Read a JSON body, whatever its declared type. Raises ``HttpError`` with the fault and its place, not its text."""
    if not body.strip():
        raise HttpError(400, "missing request body", kind="Bad Request")
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = str(error) if kind == "ollama" else f"1 validation error:\n  {error}"
        raise HttpError(400, message, kind="Bad Request", param="body") from error
