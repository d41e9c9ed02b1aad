import base64
import json

import pytest

from buffer.job import AudioPart, ImagePart, TextPart
from gateway.dialects import ollama, openai
from gateway.dialects.errors import BadRequest

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(30)).decode()


def from_openai(*messages, allow=False):
    body = json.dumps({"model": "m", "messages": messages}).encode()
    return openai.parse_chat(body, allow_image_urls=allow).messages


def from_ollama(*messages, allow=False):
    body = json.dumps({"model": "m", "messages": messages}).encode()
    return ollama.parse_chat(body, allow_image_urls=allow).messages


def test_a_picture_between_texts():
    parts = [
        {"type": "text", "text": "what"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}},
        {"type": "text", "text": "is this"},
    ]
    assert from_openai({"role": "user", "content": parts})[0].content == [
        TextPart("what"),
        ImagePart(f"data:image/png;base64,{PNG}"),
        TextPart("is this"),
    ]


@pytest.mark.parametrize(
    ("image", "url"),
    [
        (PNG, f"data:image/png;base64,{PNG}"),
        (f"data:image/png;base64,{PNG}", f"data:image/png;base64,{PNG}"),
        (f"data:image/jpg;base64,{PNG}", f"data:image/jpeg;base64,{PNG}"),
        (f"data:;base64,{PNG}", f"data:image/png;base64,{PNG}"),
        (f"DATA:image/png;charset=x;base64,{PNG}", f"data:image/png;base64,{PNG}"),
        (PNG[:20] + "\n " + PNG[20:] + "\r\n", f"data:image/png;base64,{PNG}"),
        (PNG.rstrip("="), f"data:image/png;base64,{PNG}"),
    ],
)
def test_spellings_of_a_picture(image, url):
    expected = [TextPart("x"), ImagePart(url)]
    assert from_ollama({"role": "user", "content": "x", "images": [image]})[0].content == expected
    part = {"type": "image_url", "image_url": image}
    assert from_openai({"role": "user", "content": [part]})[0].content == expected[1:]


@pytest.mark.parametrize(
    ("magic", "mime"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"BM\0\0\0\0", "image/bmp"),
        (b"who knows", "image/jpeg"),
    ],
)
def test_types_are_told_by_the_first_bytes(magic, mime):
    data = base64.b64encode(magic + bytes(20)).decode()
    assert from_ollama({"role": "user", "images": [data]})[0].content == [ImagePart(f"data:{mime};base64,{data}")]


@pytest.mark.parametrize(
    ("magic", "form"),
    [(b"RIFF\0\0\0\0WAVEfmt ", "wav"), (b"ID3\4", "mp3"), (b"fLaC", "flac"), (b"OggS", "ogg")],
)
def test_sound_among_ollamas_images(magic, form):
    data = base64.b64encode(magic + bytes(20)).decode()
    assert from_ollama({"role": "user", "content": "x", "images": [data]})[0].content == [
        TextPart("x"),
        AudioPart(data, form),
    ]


def test_openais_sound():
    part = {"type": "input_audio", "input_audio": {"data": PNG, "format": "mp3"}}
    assert from_openai({"role": "user", "content": [part]})[0].content == [AudioPart(PNG, "mp3")]


@pytest.mark.parametrize("url", ["http://127.0.0.1/a.png", "HTTPS://example.org/a.png"])
def test_links_only_where_allowed(url):
    part = {"type": "image_url", "image_url": {"url": url}}
    for parse, message in (
        (from_openai, {"role": "user", "content": [part]}),
        (from_ollama, {"role": "user", "images": [url]}),
    ):
        with pytest.raises(BadRequest, match="base64 encoded data"):
            parse(message)
        assert parse(message, allow=True)[0].content == [ImagePart(url)]


@pytest.mark.parametrize(
    "image",
    [
        "",
        "a",
        "abcde",
        "äbc=",
        "ab=c",
        "a===",
        "====",
        "not base64!",
        "data:image/png,abc",
        "data:text/html;base64,aGk=",
        "file:///etc/passwd",
    ],
)
def test_pictures_that_are_none(image):
    with pytest.raises(BadRequest):
        from_ollama({"role": "user", "images": [image]})
    with pytest.raises(BadRequest):
        from_openai({"role": "user", "content": [{"type": "image_url", "image_url": {"url": image}}]})
