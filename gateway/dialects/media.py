"""Pictures and sound in a message: base64 with or without ``data:``, and links where they are allowed."""

from __future__ import annotations

import base64
import binascii
import re

from buffer.job import AudioPart, ImagePart
from gateway.dialects.errors import BadRequest

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BLANKS = b" \t\r\n"
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w.+-]+=[^;,]*)*);base64,", re.IGNORECASE)
_LINK = re.compile(r"https?://", re.IGNORECASE)
_LINKS_OFF = "image URLs are not currently supported, please use base64 encoded data instead"
_BAD_BASE64 = "illegal base64 data in an image or a recording"
_AUDIO_FORMATS = {
    "audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3",
    "audio/flac": "flac", "audio/x-flac": "flac", "audio/ogg": "ogg", "audio/opus": "opus", "audio/webm": "webm",
    "audio/mp4": "m4a", "audio/aac": "aac",
}  # fmt: skip


def media(text: str, *, allow_links: bool, param: str = "") -> ImagePart | AudioPart:
    """What ``text`` holds: a data URL, bare base64 or an http(s) link. Raises ``BadRequest``."""
    text = text.strip()
    if _LINK.match(text[:8]):
        if not allow_links:
            raise BadRequest(_LINKS_OFF, param=param)
        return ImagePart(text)
    mime = ""
    if text[:5].lower() == "data:":
        # The prefix is short; looking for its end in all of a large picture would be a waste.
        prefix = _DATA_URL.match(text[:256])
        if prefix is None:
            raise BadRequest("A data: URL must hold base64.", param=param)
        mime = (prefix[1] or "").lower()
        text = text[prefix.end() :]
    data = clean_base64(text, param)
    head = base64.b64decode(data[:32])
    mime = mime if mime and mime != "application/octet-stream" else _sniff(head)
    if mime.startswith("audio/"):
        return AudioPart(data, _AUDIO_FORMATS.get(mime, mime.removeprefix("audio/")))
    if not mime.startswith("image/"):
        raise BadRequest("A data: URL in a message must be of an image or of sound.", param=param)
    if mime == "image/jpg":
        mime = "image/jpeg"
    return ImagePart(f"data:{mime};base64,{data}")


def audio(data: str, form: str, param: str = "") -> AudioPart:
    """OpenAI's ``input_audio``. Raises ``BadRequest``."""
    prefix = _DATA_URL.match(data[:256])
    return AudioPart(clean_base64(data[prefix.end() :] if prefix else data, param), form or "wav")


def clean_base64(text: str, param: str = "") -> str:
    """Standard base64 without blanks, with its padding. Raises ``BadRequest``."""
    try:
        data = text.encode("ascii")
    except UnicodeEncodeError:
        raise BadRequest(_BAD_BASE64, param=param) from None
    rest = data.translate(None, _ALPHABET)
    if rest:
        if rest.translate(None, _BLANKS + b"="):
            raise BadRequest(_BAD_BASE64, param=param)
        if rest.strip(b"="):
            data = data.translate(None, _BLANKS)
    bare = data.rstrip(b"=")
    if not bare or b"=" in bare or len(bare) % 4 == 1 or len(data) - len(bare) > 2:
        raise BadRequest(_BAD_BASE64, param=param)
    if len(data) % 4:
        data = bare + b"=" * (-len(bare) % 4)
    try:
        binascii.a2b_base64(data[-4:])
    except binascii.Error:
        raise BadRequest(_BAD_BASE64, param=param) from None
    return data.decode("ascii")


def _sniff(head: bytes) -> str:
    """The type of a file by its first bytes; a JPEG if they tell nothing. Ollama's clients send no type."""
    if head.startswith(b"\x89PNG"):
        return "image/png"
    if head.startswith(b"GIF8"):
        return "image/gif"
    if head.startswith(b"BM"):
        return "image/bmp"
    if head.startswith(b"RIFF"):
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(head[8:12], "image/jpeg")
    if head.startswith((b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2")):
        return "audio/mpeg"
    if head.startswith(b"fLaC"):
        return "audio/flac"
    if head.startswith(b"OggS"):
        return "audio/ogg"
    return "image/jpeg"
