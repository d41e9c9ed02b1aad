"""One form inside, whatever the client or the engine speaks.

``Chat`` is a request and travels as JSON in the job's hash; ``Event`` is a piece of an answer and travels as
MessagePack in reply entries and frames. Fields that are only carried through stay raw JSON and are never decoded.
None of them can be part of a cycle, so the collector of cycles need not know of them (``gc=False``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from buffer.embed import OptionalRaw, Vector

Lane = Literal["thinking", "fast", "normal", "slow", "background"]
LANES: tuple[Lane, ...] = ("thinking", "fast", "normal", "slow", "background")
"""Lanes in order of preference."""

Think = Literal["unset", "off", "on", "low", "medium", "high", "max"]
"""What the client asked of the model's thinking. ``unset`` leaves it to the model, and is not ``off``."""

Front = Literal["ollama", "openai", "responses", "anthropic"]
"""Whose form the client speaks."""


class TextPart(Struct, tag="text", tag_field="type", gc=False):
    text: str


class ImagePart(Struct, tag="image", tag_field="type", gc=False):
    url: str
    """A ``data:`` URL; an ``http(s)`` link only where the operator allows links."""


class AudioPart(Struct, tag="audio", tag_field="type", gc=False):
    data: str
    """Base64, without a ``data:`` prefix."""
    format: str


Part = TextPart | ImagePart | AudioPart


class ToolCall(Struct, gc=False):
    id: str
    name: str
    arguments: str
    """JSON text of an object."""


class Message(Struct, omit_defaults=True, gc=False):
    role: str
    """``system``, ``user``, ``assistant`` or ``tool``; ``developer`` has become ``system``."""
    content: str | list[Part] = ""
    reasoning: str = ""
    tool_calls: list[ToolCall] = []
    tool_call_id: str = ""
    tool_name: str = ""
    """Of a ``tool`` message: the name of the function that ran."""
    name: str = ""

    def text(self) -> str:
        """The message's words, parts joined by a line break."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content if isinstance(part, TextPart))


class Sampling(Struct, omit_defaults=True, gc=False):
    """Sampling settings that both APIs know. None: the client left it unset, and the model's own default holds."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None


class Format(Struct, omit_defaults=True, gc=False):
    """Structured output: any JSON object, or one that fits ``schema``."""

    kind: Literal["json", "schema"]
    schema: OptionalRaw = None
    name: str = ""
    strict: bool | None = None


class Chat(Struct, omit_defaults=True, gc=False):
    """A chat request in the one form inside."""

    model: str
    """The name that the client used; answers carry it back."""
    messages: list[Message]
    front: Front = "openai"
    stream: bool = False
    """What the client asked for. Back ends are always read as streams."""
    think: Think = "unset"
    show_reasoning: bool = True
    """False: the model may think, the client is not to see it."""
    sampling: Sampling = msgspec.field(default_factory=Sampling)
    max_tokens: int | None = None
    """Most tokens of the answer, thinking included. None: until the model stops."""
    stop: list[str] = []
    n: int = 1
    tools: list[Raw] = []
    """Tools in OpenAI's form."""
    tool_choice: OptionalRaw = None
    parallel_tool_calls: bool | None = None
    format: Format | None = None
    logprobs: bool = False
    top_logprobs: int | None = None
    include_usage: bool = False
    """OpenAI streams: send the usage chunk."""
    keep_alive: OptionalRaw = None
    """JSON number of seconds, or a Go duration as text; only Ollama back ends are told."""
    options: dict[str, Raw] = {}
    """Ollama options beyond ``Sampling`` (``num_ctx`` and the like), for Ollama back ends."""
    extra: dict[str, Raw] = {}
    """Top-level fields beyond the above, ``chat_template_kwargs`` and the like, for OpenAI back ends that know them."""
    truncate: bool = True
    """Ollama's: drop the oldest turns of a prompt that is too long, rather than refuse it."""
    prompt: str | None = None
    """A literal prompt in place of messages: the engine puts no template around it."""
    suffix: str | None = None
    """With ``prompt``: what is to come after the words asked for."""
    prompt_tokens: list[int] = []
    """A literal prompt as the engine's own tokens; ``prompt`` is empty then, not None."""


class Content(Struct, tag="c", array_like=True, gc=False):
    text: str
    index: int = 0
    """Which of ``n`` answers."""


class Reasoning(Struct, tag="r", array_like=True, gc=False):
    text: str
    index: int = 0


class ToolDelta(Struct, tag="t", array_like=True, gc=False):
    """A piece of a tool call. ``id`` and ``name`` come with a slot's first piece; ``arguments`` join to JSON text."""

    slot: int
    """Running number of the call within its answer, from 0."""
    id: str = ""
    name: str = ""
    arguments: str = ""
    index: int = 0


class Logprobs(Struct, tag="l", array_like=True, gc=False):
    json: str
    """JSON text of OpenAI's ``logprobs.content`` list for the tokens just sent."""
    index: int = 0


class Finish(Struct, tag="f", array_like=True, gc=False):
    reason: Literal["stop", "length", "tool_calls", "content_filter"]
    index: int = 0


class Usage(Struct, tag="u", array_like=True, gc=False):
    """Token counts and engine times of the whole answer; a later one replaces an earlier one."""

    prompt: int
    """Tokens of the prompt, cached ones included."""
    completion: int
    """Tokens of the answer, thinking included."""
    cached: int | None = None
    reasoning: int | None = None
    prompt_ns: int | None = None
    """Nanoseconds spent reading the prompt, where the engine tells."""
    completion_ns: int | None = None
    load_ns: int | None = None


class Origin(Struct, tag="o", array_like=True, gc=False):
    """Comes first, if at all: what the engine says of itself (``system_fingerprint``)."""

    fingerprint: str


Event = Content | Reasoning | ToolDelta | Logprobs | Finish | Usage | Origin | Vector

EndKind = Literal["done", "failed", "cancelled", "expired"]


class Failure(Struct, omit_defaults=True, gc=False):
    """Why a job ended without an answer. ``message`` is one sentence for a person."""

    message: str
    status: int = 502
    """HTTP status, if no byte has been sent yet."""
    code: str = "upstream_error"
    param: str = ""
    retry_after_s: int | None = None


class End(Struct, omit_defaults=True, gc=False):
    """The terminal event of a job: exactly one, and no word after it."""

    kind: EndKind
    failure: Failure | None = None


encode_chat: Callable[[Chat], bytes] = msgspec.json.Encoder().encode
decode_chat: Callable[[bytes], Chat] = msgspec.json.Decoder(Chat).decode
"""Raises ``msgspec.DecodeError`` on a body that is none; so do the others on theirs."""
encode_events: Callable[[list[Event]], bytes] = msgspec.msgpack.Encoder().encode
decode_events: Callable[[bytes], list[Event]] = msgspec.msgpack.Decoder(list[Event]).decode
encode_end: Callable[[End], bytes] = msgspec.json.Encoder().encode
decode_end: Callable[[bytes], End] = msgspec.json.Decoder(End).decode
