"""How an answer is told once more to whoever comes back for it: kept beside the answer, without the prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from buffer.job import Chat, Failure
from gateway.call import Call
from gateway.dialects import anthropic
from gateway.dialects.answer import shape
from gateway.dialects.responses_object import shape as responses_shape
from gateway.forms import COMPLETIONS, GENERATE, OLLAMA, OPENAI, RESPONSES, Form, anthropic_form
from gateway.intake import Order
from gateway.refusal import Refusal

_FORMS: Final[Mapping[str, Form]] = {
    "/v1/chat/completions": OPENAI,
    "/v1/completions": COMPLETIONS,
    "/v1/responses": RESPONSES,
    "/api/chat": OLLAMA,
    "/api/generate": GENERATE,
}
_MESSAGES = "/v1/messages"


class Told(Struct, omit_defaults=True):
    """What of a request its answer needs."""

    path: str
    chat: Chat
    """As ``shape`` leaves it. Of several, the first."""
    created: float
    """Seconds since 1970."""
    request_id: str = ""
    """Anthropic's errors name it."""
    input_tokens: int = 0
    """About how many tokens the prompt has, where the answer says so before an engine does."""
    more: list[str] = []
    """The other jobs of the same request, each with as many choices."""

    @property
    def form(self) -> Form:
        if self.path == _MESSAGES:
            return anthropic_form(self.request_id, self.input_tokens)
        return _FORMS[self.path]

    def streamed(self) -> Chat:
        """The chat of the answer as a stream, whatever it was asked for as."""
        usage = self.chat.include_usage or not self.chat.stream
        count = self.chat.n * (1 + len(self.more))
        return msgspec.structs.replace(self.chat, stream=True, include_usage=usage, n=count)


DETACH = b"x-doublebuffer-detach"
_SWITCH = {b"true": True, b"1": True, b"false": False, b"0": False, b"": False}
_BAD_SWITCH = Failure("X-Doublebuffer-Detach is true or false.", 400, "")


def detaches(call: Call) -> bool:
    """Whether the client wants its request to outlive its connection. Raises ``Refusal`` where it does not say."""
    asked = call.headers.get(DETACH)
    if asked is None:
        return False
    wanted = _SWITCH.get(asked.strip().lower())
    if wanted is None:
        raise Refusal(_BAD_SWITCH)
    return wanted


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Told)


def read_told(data: bytes) -> Told | None:
    """None: the request has no answer that could be told as a stream."""
    try:
        told = _decoder.decode(data) if data else None
    except msgspec.MsgspecError:
        return None
    return told if told is not None and (told.path in _FORMS or told.path == _MESSAGES) else None


def tell(chat: Chat, call: Call, created: float, more: Sequence[Order] = ()) -> bytes:
    """``NewJob.told`` of the first job of a request that came at ``created``. ``more``: its other jobs."""
    is_responses = call.path == "/v1/responses"
    told = Told(call.path, responses_shape(chat) if is_responses else shape(chat), created)
    if more:
        told.more = [order.job.id for order in more]
    if call.path == _MESSAGES:
        told.request_id, told.input_tokens = call.request_id, anthropic.token_count(chat)
    return _encoder.encode(told)
