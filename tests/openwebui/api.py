"""Open WebUI's own API, as its page and its users' scripts call it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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

    async def post(self, path: str, form: dict[str, Any]) -> Any:
        return await _json(self._client, "POST", path, json=form)

    async def make_model(self, name: str, base: str, params: dict[str, Any], *, tools: Sequence[str] = ()) -> None:
        """A model of Open WebUI's workspace: another one with parameters and ``tools`` of its own."""
        meta = {"toolIds": list(tools)}
        form = {"id": name, "name": name, "base_model_id": base, "meta": meta, "params": params, "is_active": True}
        await _json(self._client, "POST", "/api/v1/models/create", json=form)

    async def drop_model(self, name: str) -> None:
        await _json(self._client, "POST", "/api/v1/models/model/delete", json={"id": name})

    async def make_tool(self, name: str, source: str) -> None:
        """A tool of Open WebUI's workspace, which it runs itself."""
        form = {"id": name, "name": name, "content": source, "meta": {"description": name}}
        await self.post("/api/v1/tools/create", form)

    async def upload(self, name: str, text: str) -> dict[str, Any]:
        """A document, read and embedded when this returns; as a chat attaches it."""
        files = {"file": (name, text.encode(), "text/plain")}
        told = await _json(self._client, "POST", "/api/v1/files/?process=true&process_in_background=false", files=files)
        status = await self.get(f"/api/v1/files/{told['id']}/process/status")
        assert status["status"] == "completed", status
        return {"type": "file", "id": told["id"], "name": name, "file": told}

    async def pulled(self, model: str, seen: Callable[[dict[str, Any]], None]) -> list[dict[str, Any]]:
        """The lines of a pull. ``seen``: called with each as it comes."""
        lines = []
        form = {"name": model, "model": model}
        async with self._client.stream("POST", "/ollama/api/pull", json=form) as answer:
            assert answer.status_code == 200, (await answer.aread())[:500]
            async for line in answer.aiter_lines():
                if line:
                    lines.append(json.loads(line))
                    seen(lines[-1])
        return lines

    async def deleted(self, model: str) -> httpx.Response:
        return await self._client.request("DELETE", "/ollama/api/delete", json={"model": model})

    async def ask(self, model: str, content: Any, **more: Any) -> httpx.Response:
        """A whole answer's response, whatever it is. ``more``: fields of the request."""
        form = {"model": model, "stream": False, "messages": [{"role": "user", "content": content}], **more}
        return await self._client.post("/api/chat/completions", json=form)

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
