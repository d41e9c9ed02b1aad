"""Open WebUI's background tasks: the chats that it sends by itself around a person's chat."""

from __future__ import annotations

from collections.abc import Mapping

from buffer.job import Chat

TITLE = "title_generation"
_BACKGROUND = {TITLE, "follow_up_generation", "tags_generation", "autocomplete_generation", "emoji_generation"}
"""What nobody waits for. Query generation, function calling and moa come before an answer, and count as chats."""

_OPENING = "### Task:\n"
_FORMS = (
    ("Generate a concise title", TITLE),
    ("Generate a concise, 3-5 word title", TITLE),
    ("Predict 3-5 useful messages", "follow_up_generation"),
    ("Suggest 3-5 relevant follow-up", "follow_up_generation"),
    ("Generate 1-3 broad tags", "tags_generation"),
    ("You are an autocompletion system", "autocomplete_generation"),
)
_EMOJI = "Your task is to reflect the speaker's likely facial expression through a fitting emoji"
_HEADER = b"x-openwebui-task"


def task(headers: Mapping[bytes, bytes], chat: Chat) -> str:
    """Which background task a request is; empty: none. ``headers`` by lower-case name.

    The header that a connection can be set up to send decides: empty, it says that a person is waiting. Without it, or
    where its template was left as it was, the chat's form does.
    """
    told = headers.get(_HEADER)
    if told is not None and b"{{" not in told:
        name = told.decode("latin-1").strip().lower()
        return name if name in _BACKGROUND else ""
    return _by_form(chat)


def _by_form(chat: Chat) -> str:
    if chat.stream or chat.tools:
        return ""
    asking = None
    for message in chat.messages:
        if message.role != "system":
            if asking is not None or message.role != "user":
                return ""
            asking = message
    if asking is None:
        return ""
    text = asking.text()[:400].lstrip().replace("\r\n", "\n")
    if text.startswith(_EMOJI):
        return "emoji_generation"
    # A chat about a document opens with the same heading, so the heading alone says nothing.
    if not text.startswith(_OPENING):
        return ""
    order = text.removeprefix(_OPENING).lstrip()
    return next((name for form, name in _FORMS if order.startswith(form)), "")
