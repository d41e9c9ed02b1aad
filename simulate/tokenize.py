"""``POST /tokenize``, as vLLM answers it: the tokens of a chat as the engine would read it, or of a literal prompt."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from simulate.bodies import decode
from simulate.going_on import Begun, split, with_beginning
from simulate.prompt import PromptError, raw, render
from simulate.site import Site
from simulate.tokens import ids_of
from simulate.wire import Exchange, HttpError


class TokenizeBody(Struct):
    model: str = ""
    messages: list[dict[str, Any]] | None = None
    prompt: str | None = None
    tools: list[dict[str, Any]] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    continue_final_message: bool = False
    add_generation_prompt: bool = True


async def tokenize(site: Site, exchange: Exchange) -> None:
    """Raises ``HttpError``."""
    if site.kind != "vllm":
        raise HttpError(404, "404 page not found")
    body = decode(await exchange.body(), TokenizeBody, site.kind)
    if body.model and site.find(body.model) is None:
        message = f"The model `{body.model}` does not exist."
        raise HttpError(404, message, kind="NotFoundError", param="model")
    if (body.messages is None) == (body.prompt is None):
        message = "give either messages or a prompt"
        raise HttpError(400, message, kind="BadRequestError", param="messages")
    if body.prompt is not None:
        prompt = raw(body.prompt)
    else:
        given = body.messages or []
        messages, begun = split(given) if body.continue_final_message else (given, Begun())
        try:
            question = render(messages, body.tools or ())
        except PromptError as error:
            raise HttpError(400, str(error), kind="BadRequestError", param="messages") from error
        prompt = with_beginning(question, begun, site.profile.name)
    ids = ids_of(prompt.text)
    # What has no words (pictures, sounds) is at the end, where it hides no block of the text.
    ids += [0] * (prompt.tokens - len(ids))
    await exchange.json({"count": len(ids), "max_model_len": site.context_length, "tokens": ids, "token_strs": None})
