"""Pure: what an engine's complaint means, in whatever shape it comes, and which of its words may be passed on."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from backends.base import NO_MODEL, OUR_KEY, BackendError

MESSAGE_LIMIT = 500
"""Characters."""
CLIENT_STATUSES = frozenset({400, 404, 405, 406, 409, 410, 411, 413, 414, 415, 416, 422, 431})
AUTH_STATUSES = frozenset({401, 403})
BUSY_STATUSES = frozenset({429, 503})
UNABLE_STATUS = 501

_PATH = re.compile(r"(?<![\w:/.])(?:[A-Za-z]:)?(?:[/\\][\w.@+\-]+){2,}[/\\]?(?:[:,]? line \d+)?")
_VALIDATION = re.compile(r"^\d+ validation errors?", re.IGNORECASE)
_COMPLAINT = re.compile(r"'msg': (?:'([^']*)'|\"([^\"]*)\")")
_CONTEXT = re.compile(
    r"maximum context length|max_model_len|context (?:size|length|window)|input tokens", re.IGNORECASE
)
_UNABLE = re.compile(r"\b(?:is|are) not (?:currently )?supported\b|\bdoes not support\b", re.IGNORECASE)
_ASKED = re.compile(r"(?:request \(|requested |at least |contains |has )(\d+)(?: input)? tokens")
_LIMIT = re.compile(r"(?:context length is(?: only)?|context size \()\s*(\d+)")


class ContextTooLongError(BackendError):
    """The prompt is longer than the model can read."""

    def __init__(self, message: str, *, share: float) -> None:
        super().__init__(message, kind="client", status=400, code="context_length_exceeded", param="messages")
        self.share = share
        """How much of the prompt fits, 0 to 1; a guess where the engine gave no numbers."""


def from_status(name: str, status: int, body: bytes) -> BackendError:
    """The error of an answer with an HTTP status of 300 or more. ``name``: the back end's."""
    complaint = _Complaint.of(body)
    if status in AUTH_STATUSES:
        return _our_key(name)
    if status in BUSY_STATUSES:
        message = complaint.message or "It is busy."
        return BackendError(f"Back end '{name}' takes no request now: {message}", kind="refused", status=503)
    if status in CLIENT_STATUSES:
        return complaint.client(name, status)
    if status == UNABLE_STATUS or (status == 500 and complaint.is_inability()):
        # What this model cannot do, it cannot the next time either; and clients try again after a 5xx.
        return complaint.client(name, 400)
    message = complaint.message or "It gave no reason."
    return BackendError(f"Back end '{name}' failed with status {status}: {message}", kind="failed")


def from_payload(name: str, payload: Any) -> BackendError:
    """The error of an ``error`` field inside an answer that had begun well (``payload``: its value)."""
    complaint = _Complaint(payload)
    if complaint.status in AUTH_STATUSES:
        return _our_key(name)
    if complaint.status in CLIENT_STATUSES:
        return complaint.client(name, complaint.status)
    if complaint.status in (500, UNABLE_STATUS) and complaint.is_inability():
        return complaint.client(name, 400)
    message = complaint.message or "It gave no reason."
    return BackendError(f"Back end '{name}' broke off with an error: {message}", kind="failed")


def _our_key(name: str) -> BackendError:
    """A client's own key is never passed on, so it is ours; and it will not be better the next time."""
    return BackendError(f"Back end '{name}' does not accept Doublebuffer's key.", kind="client", code=OUR_KEY)


def early_end(name: str, why: str) -> BackendError:
    """``why`` ends a sentence: "closed the connection before the answer was complete"."""
    return BackendError(f"Back end '{name}' {why}.", kind="failed")


def broken(error: BackendError) -> BackendError:
    """The same error, after the first event."""
    return BackendError(error.message, kind="broken", status=error.status, code=error.code, param=error.param)


class _Complaint:
    """``{"error": text}``, ``{"error": {…}}``, ``{"message": …}``, ``{"detail": …}``, plain text or a web page."""

    def __init__(self, payload: Any) -> None:
        fields: dict[str, Any] = payload if isinstance(payload, dict) else {}
        text = payload if isinstance(payload, str) else fields.get("message") or fields.get("detail") or ""
        if isinstance(text, list) and text and isinstance(text[0], dict):
            text = text[0].get("msg", "")
        self.raw = text if isinstance(text, str) else ""
        self.message = clean(self.raw)
        self.type = str(fields.get("type") or "")
        self.param = param if isinstance(param := fields.get("param"), str) else ""
        code = fields.get("code")
        self.status = code if isinstance(code, int) else 0
        self.code = code if isinstance(code, str) else ""
        self.tokens = (fields.get("n_prompt_tokens"), fields.get("n_ctx"))

    @classmethod
    def of(cls, body: bytes) -> _Complaint:
        text = body.decode("utf-8", "replace").strip()
        try:
            payload = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            page = text[:200].lower()
            return cls("" if page.startswith(("<!doctype", "<html")) else text)
        if isinstance(payload, dict) and payload.get("error"):
            payload = payload["error"]
        return cls(payload)

    def client(self, name: str, status: int) -> BackendError:
        message = self.message or f"Back end '{name}' refused the request with status {status}."
        if status in (400, 413, 422) and self._too_long():
            return ContextTooLongError(message, share=self._share())
        code, param = self.code, self.param
        if status == 404 and "model" in self.raw.lower():
            code, param = NO_MODEL, "model"
        return BackendError(message, kind="client", status=status, code=code, param=param)

    def is_inability(self) -> bool:
        """llama.cpp answers 500 to a picture or a sound that its model cannot take, and Ollama to what it cannot do."""
        return bool(_UNABLE.search(self.raw))

    def _too_long(self) -> bool:
        told = self.type == "exceed_context_size_error" or self.code == "context_length_exceeded"
        return told or self.param in ("input_tokens", "input_text") or bool(_CONTEXT.search(self.raw))

    def _share(self) -> float:
        asked, limit = self.tokens
        if not (isinstance(asked, int) and isinstance(limit, int)):
            found, bound = _ASKED.search(self.raw), _LIMIT.search(self.raw)
            asked, limit = (int(found[1]), int(bound[1])) if found and bound else (2, 1)
        return limit / asked if 0 < limit < asked else 0.5


def clean(message: str) -> str:
    """An engine's words without file paths, without what it quotes of the request, and not too many."""
    if _VALIDATION.match(message):
        # vLLM's list of complaints repeats the request's own words as ``input``.
        found = [one or other for one, other in _COMPLAINT.findall(message)]
        return "; ".join(dict.fromkeys(found[:3])) or "The request is not valid."
    text = _PATH.sub("…", message)
    text = " ".join(text.split())
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"
