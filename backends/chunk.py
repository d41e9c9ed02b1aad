"""Pure: the form of a chat completion's chunk, as far as it is read. Missing or odd fields do no harm."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

_MOST = 2**53
_LONE_SURROGATE = re.compile(r"\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f][0-9a-f]{2}", re.I)


MOST_IN_VAIN = 4
"""Chunks from which it is learned what stands around the words, without another one that has the same around them: some
engines tell the time in each."""
NOTHING = Raw(b"null")
"""Of a field that may be left out. msgspec takes nothing raw in a union with None."""


class Function(Struct, gc=False):
    name: str | None = None
    arguments: Any = None


class ToolCall(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Delta(Struct, gc=False):
    # Any: an engine's odd value in one of these must not cost the whole answer.
    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    tool_calls: list[ToolCall] | None = None


class ChoiceLogprobs(Struct, gc=False):
    content: Raw = NOTHING
    # Any: the older form, of completions; see ``token_logprobs``.
    tokens: Any = None
    token_logprobs: Any = None
    top_logprobs: Any = None


class Choice(Struct, gc=False):
    index: int = 0
    delta: Delta | None = None
    message: Delta | None = None
    text: Any = None
    """Of a completion, which has neither of the two above."""
    logprobs: ChoiceLogprobs | None = None
    finish_reason: str | None = None


class PromptDetails(Struct, gc=False):
    cached_tokens: int | None = None


class CompletionDetails(Struct, gc=False):
    reasoning_tokens: int | None = None


class Counts(Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None


class Timings(Struct, gc=False):
    """llama.cpp's; milliseconds."""

    cache_n: int | None = None
    prompt_n: int | None = None
    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None


class Metrics(Struct, gc=False):
    """vLLM's; milliseconds."""

    time_to_first_token_ms: float | None = None
    generation_time_ms: float | None = None


class Chunk(Struct, gc=False):
    choices: list[Choice] | None = None
    usage: Counts | None = None
    timings: Timings | None = None
    metrics: Metrics | None = None
    system_fingerprint: str | None = None
    error: Any = None
    object: Any = None
    message: Any = None
    code: Any = None


_decoder = msgspec.json.Decoder(Chunk)
_texts = msgspec.json.Decoder(list[str])


def plain_words(chunk: Chunk) -> str:
    """The words of a chunk that has some for the first answer and nothing else, as nearly all have; else empty."""
    choices = chunk.choices
    if choices is None or len(choices) != 1 or chunk.usage is not None or chunk.timings is not None:
        return ""
    choice = choices[0]
    delta = choice.delta
    if (
        delta is None
        or choice.index != 0
        or choice.finish_reason
        or choice.logprobs is not None
        or choice.text is not None
    ):
        return ""
    if delta.reasoning or delta.reasoning_content or delta.tool_calls or chunk.error or chunk.object == "error":
        return ""
    return delta.content if type(delta.content) is str else ""


class Around:
    """What stands around the words in one answer's chunks. Nearly always it is the same in all of them, and only the
    words are left to be read: it is found in the bytes, and what is between read as the JSON text that it has to be.
    """

    __slots__ = ("_begin", "_between", "_decode", "_end", "_first", "_head", "_in_vain", "_last", "_tail")

    def __init__(self, decode: Callable[[bytes], Chunk | None]) -> None:
        self._decode = decode
        self._head = self._tail = self._first = self._last = self._between = b""
        self._begin = self._end = 0
        """Where the words are in an event."""
        self._in_vain = 0
        """How often it was learned since it was last of use."""

    def all(self, data: bytes) -> list[str]:
        """The words of each of the server-sent events in ``data``, if all of them are of this kind; else none."""
        if not (self._head and data.startswith(self._first) and data.endswith(self._last)):
            return []
        # What stands between has quotes, which have to be escaped in words: so it is found in none.
        return self._read(data[self._begin : self._end].split(self._between))

    def begin(self, payloads: Sequence[bytes]) -> list[str]:
        """The words of the payloads that ``payloads`` begins with, as far as they are of this kind."""
        head, tail = self._head, self._tail
        if not head:
            return []
        texts, begin, end = [], len(head), -len(tail)
        for payload in payloads:
            if not (payload.startswith(head) and payload.endswith(tail)):
                break
            texts.append(payload[begin:end])
        words = self._read(texts) if texts else []
        if texts and not words:
            # To be learned anew.
            self._head = b""
        return words

    def _read(self, texts: Sequence[bytes]) -> list[str]:
        """Each has to be the JSON text of some words; else none is taken."""
        try:
            words = _texts.decode(b"[%b]" % b",".join(texts))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return []
        if len(words) != len(texts) or not all(words):
            return []
        self._in_vain = 0
        return words

    def learn(self, payload: bytes, words: str) -> None:
        """``words``: those of the payload, which was read."""
        if self._in_vain == MOST_IN_VAIN:
            return
        self._in_vain += 1
        head, text, tail = payload.rpartition(msgspec.json.encode(words))
        # The same text may stand elsewhere too: another one in this place has to be read as the words.
        other = "other" if words != "other" else "others"
        chunk = self._decode(b'%b"%b"%b' % (head, other.encode(), tail)) if text else None
        if chunk is not None and plain_words(chunk) == other:
            self._head, self._tail = head, tail
            self._first, self._last = b"data: " + head, tail + b"\n\n"
            self._between = self._last + self._first
            self._begin, self._end = len(self._first), -len(self._last)


def decode_chunk(payload: bytes) -> Chunk | None:
    """None for what is no JSON object of this form."""
    try:
        return _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    # Engines that cut a token in the middle of a character have been seen to send half of it.
    text = _LONE_SURROGATE.sub(r"\\ufffd", payload.decode("utf-8", "replace"))
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def plausible(told: float | None) -> int | None:
    """A count or a time as an engine tells it, within what the store and traces can hold."""
    return None if told is None else round(min(max(told, 0), _MOST))


def text_of(value: Any) -> str:
    """A text, or the joined texts of a list of parts."""
    if type(value) is str:
        return value
    if type(value) is list:
        return "".join(part["text"] for part in value if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""


def arguments_of(value: Any) -> str:
    """Of a function that is called: as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()
