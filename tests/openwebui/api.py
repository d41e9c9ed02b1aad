"""Open WebUI's own API, as its page and its users' scripts call it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx

EMAIL, PASSWORD = "admin@openwebui.test", "a-password-of-no-use"


@dataclass(frozen=True, slots=True)
class Said:
    """An answer. ``pieces``: how many events brought text; 1 for a whole answer."""

    text: str
    thought: str
    reason: str
    pieces: int


class Api:
    """Calls as one user."""

    def __init__(self, client: httpx.AsyncClient, user: str) -> None:
        self._client = client
        self.user = user

    @classmethod
    async def signed_up(cls, client: httpx.AsyncClient) -> Api:
        """The first who signs up, and so the administrator."""
        form = {"name": "Admin", "email": EMAIL, "password": PASSWORD}
        told = await _json(client, "POST", "/api/v1/auths/signup", json=form)
        client.headers["Authorization"] = f"Bearer {told['token']}"
        return cls(client, told["id"])

    async def get(self, path: str) -> Any:
        return await _json(self._client, "GET", path)

    async def models(self) -> dict[str, str]:
        """Names, and by which connection they come."""
        listed = await self.get("/api/models")
        return {model["id"]: model["owned_by"] for model in listed["data"]}

    async def make_model(self, name: str, base: str, params: dict[str, Any]) -> None:
        """A model of Open WebUI's workspace: another one with parameters of its own."""
        form = {"id": name, "name": name, "base_model_id": base, "meta": {}, "params": params, "is_active": True}
        await _json(self._client, "POST", "/api/v1/models/create", json=form)

    async def drop_model(self, name: str) -> None:
        await _json(self._client, "POST", "/api/v1/models/model/delete", json={"id": name})

    async def whole(self, model: str, prompt: str) -> Said:
        told = await _json(self._client, "POST", "/api/chat/completions", json=_chat(model, prompt, stream=False))
        (choice,) = told["choices"]
        message = choice["message"]
        thought = message.get("reasoning_content") or ""
        return Said(message["content"], thought, choice["finish_reason"], 1)

    async def streamed(self, model: str, prompt: str) -> Said:
        """Raises ``AssertionError`` if an error came in the stream, or no end."""
        text = thought = reason = ""
        pieces = 0
        ends = 0
        form = _chat(model, prompt, stream=True)
        async with self._client.stream("POST", "/api/chat/completions", json=form) as answer:
            assert answer.status_code == 200, (await answer.aread())[:500]
            async for line in answer.aiter_lines():
                if not line.startswith("data:"):
                    continue
                event = line.removeprefix("data:").strip()
                if event == "[DONE]":
                    ends += 1
                    continue
                chunk = json.loads(event)
                assert "error" not in chunk, chunk
                for choice in chunk.get("choices", ()):
                    delta = choice.get("delta", {})
                    said, mused = delta.get("content") or "", delta.get("reasoning_content") or ""
                    text, thought, pieces = text + said, thought + mused, pieces + bool(said or mused)
                    reason = choice.get("finish_reason") or reason
        assert ends == 1, "the stream has no end"
        return Said(text, thought, reason, pieces)


def _chat(model: str, prompt: str, *, stream: bool) -> dict[str, Any]:
    return {"model": model, "stream": stream, "messages": [{"role": "user", "content": prompt}]}


async def _json(client: httpx.AsyncClient, method: str, path: str, **more: Any) -> Any:
    answer = await client.request(method, path, **more)
    assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:500]}"
    return answer.json()
