"""The first lines of ``up``: each model once, and a line to try that works as it stands."""

from __future__ import annotations

import shlex

import httpx
import pytest

from backends.base import Probe
from buffer.backend import BackendSpec, ModelInfo
from buffer.setting_values import ApiKey
from buffer.settings import Settings
from doublebuffer.discovery import Place
from doublebuffer.starting import Seen
from doublebuffer.telling import banner
from tests.command.test_up import living
from tests.rig.scripted import Scripted

URL = "http://127.0.0.1:1"


def seen(name: str, *models: str, **more: object) -> Seen:
    spec = BackendSpec(name=name, kind="vllm", url=URL, **more)  # type: ignore[arg-type]
    return Seen(spec, Probe(models=[ModelInfo(id=model) for model in models]))


def line(text: str, title: str) -> str:
    (found,) = (line for line in text.splitlines() if line.startswith(f"  {title} "))
    return found.split(maxsplit=1)[1]


@pytest.mark.parametrize(
    ("back_ends", "told"),
    [
        ([seen("a", "m:1b"), seen("b", "m:1b")], "m:1b"),
        ([seen("a", "m:1b"), seen("b", "Org/M-1B", "n")], "m:1b, n"),
        ([seen("a", "Org/M-1B"), seen("b", "m:1b")], "m:1b"),
        ([seen("a", "One/M"), seen("b", "Two/M")], "One/M, Two/M"),
        ([seen("a", "z"), seen("b", "y", "z", models={"own": "y", "Z": "z"})], "z, y, own"),
        ([seen("a", "m", pool="one"), seen("b", "m", pool="two")], "m"),
        ([Seen(BackendSpec(name="a", kind="vllm", url=URL, models={"own": "m"}), None, "is away")], "own"),
        ([seen("a")], "none yet"),
    ],
)
def test_each_model_is_named_once(back_ends: list[Seen], told: str) -> None:
    assert line(banner(Settings(), URL, back_ends, simulated=False), "models") == told


@pytest.mark.parametrize("count", [0, 1, 2, 5])
async def test_the_line_to_try_works(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    keys = [ApiKey(name=f"key {number}", key=f"secret-{number}") for number in range(count)]
    async with Scripted("ollama", models=["it's:1b"]) as ollama:
        place = Place("ollama", "Ollama", ollama.url, "/api/version")
        async with living(capsys, [place], Settings(port=0, api_keys=keys)) as (url, lines):
            text = "\n".join(lines)
            command = shlex.split(line(text, "try").replace("$KEY", "secret-0"))
            assert command[:3] == ["curl", "-s", f"{url}/v1/chat/completions"]
            flags = dict(zip(command[3::2], command[4::2], strict=True))
            headers = dict([flags["-H"].split(": ")]) if count else {}
            assert set(flags) == ({"-H", "-d"} if count else {"-d"})
            async with httpx.AsyncClient(trust_env=False) as client:
                answer = await client.post(command[2], content=flags["-d"], headers=headers)
                assert line(text, "dashboard") == f"{url}/dashboard"
                page = await client.get(line(text, "dashboard"))
            assert answer.status_code == 200, answer.text
            assert page.status_code == (401 if count else 200)
            assert "<html" in page.text
            assert ("KEY is the key of key 0" in text) == (count > 0)
            assert "secret" not in text
