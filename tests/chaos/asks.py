"""What each client asks, settled by the seed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from tests.chaos.text import Task

Api = Literal["openai", "ollama"]
MODELS = ("m-vllm", "m-ollama")

THINKING, LEAVING, DETACHING, CUT = 0.1, 0.06, 0.06, 0.05
"""Shares of chats that think, of clients that leave for good, of those that come back, and of answers with a limit to
their length."""


@dataclass(frozen=True, slots=True)
class Ask:
    task: Task
    api: Api
    model: str
    stream: bool
    gateway: int
    """Which it turns to first."""
    leaves: float | None = None
    """Part of the answer after which the client leaves; of an answer in one piece: seconds."""
    most: int | None = None
    """Tokens that the answer may have."""
    padding: int = 0
    detaches: float | None = None
    """Part of the answer after which the client leaves, to come back."""

    @property
    def path(self) -> str:
        return "/v1/chat/completions" if self.api == "openai" else "/api/chat"

    def body(self) -> dict[str, Any]:
        messages = [{"role": "user", "content": self.task.prompt(padding=self.padding)}]
        body: dict[str, Any] = {"model": self.model, "stream": self.stream, "messages": messages}
        thinks = self.task.thoughts > 0
        if self.api == "ollama":
            return body | {"think": thinks} | ({"options": {"num_predict": self.most}} if self.most else {})
        body["chat_template_kwargs"] = {"enable_thinking": thinks}
        return body | ({"max_tokens": self.most} if self.most else {})


def ask(seed: int, client: int, turn: int, *, gateways: int, words: tuple[int, int]) -> Ask:
    """``words``: least and most of an answer."""
    draw = Random(f"{seed} {client} {turn}")
    thoughts = draw.randint(1, 4) if draw.random() < THINKING else 0
    task = Task(f"c{client}r{turn}", draw.randint(*words), thoughts)
    leaves = draw.uniform(0, 1) if draw.random() < LEAVING else None
    detaches = draw.uniform(0, 1) if leaves is None and draw.random() < DETACHING else None
    return Ask(
        task,
        draw.choice(("openai", "ollama")),
        draw.choice(MODELS),
        draw.random() < 0.7 or detaches is not None,
        draw.randrange(gateways),
        leaves,
        draw.randint(5, 40) if draw.random() < CUT else None,
        draw.choice((0, 0, 0, 600, 4000)),
        detaches,
    )
