"""The mix of ``doublebuffer bench`` for Locust: 70 % short chats, 20 % middle prompts, 10 % long documents, streamed.

    pip install locust
    locust -f deploy/locustfile.py --host http://127.0.0.1:11435 --users 8 --model qwen3:14b

Against a gateway, or against the engine itself to see the difference: any server that speaks OpenAI's API will do. Two
lines of figures for each kind of request: ``POST`` is the whole answer, ``FIRST`` the time to its first word.
"""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterator

from locust import HttpUser, between, events, task
from locust.argument_parser import LocustArgumentParser

CHARS_PER_TOKEN = 4
SHORT, MIDDLE, LONG = (60, 128), (4_000, 256), (24_000, 512)
"""Tokens of the prompt, about, and most tokens of the answer."""
QUESTION_CHARS = 60
"""Of the newest message: short, whatever document stands before it."""
WORDS = (
    "all and any ask back before book by can change city day do each earth face far find first food for garden give go "
    "good group hand have head help here home how in keep kind land large late learn letter life light little long look"
)

_numbers = itertools.count()
_start = time.time_ns()


@events.init_command_line_parser.add_listener
def add_flags(parser: LocustArgumentParser) -> None:
    """``--model`` and ``--api-key``, also as LOCUST_MODEL and LOCUST_API_KEY."""
    parser.add_argument("--model", env_var="LOCUST_MODEL", default="", help="the model (default: the first listed)")
    parser.add_argument("--api-key", env_var="LOCUST_API_KEY", default="", is_secret=True, help="where one is needed")


class Person(HttpUser):
    """Asks, reads the answer, thinks for a moment, asks again."""

    wait_time = between(1, 5)

    def on_start(self) -> None:
        options = self.environment.parsed_options
        if options.api_key:
            self.client.headers["Authorization"] = f"Bearer {options.api_key}"
        self.model = options.model or self.client.get("/v1/models").json()["data"][0]["id"]

    @task(7)
    def short_chat(self) -> None:
        self.chat("short chat", *SHORT)

    @task(2)
    def middle_prompt(self) -> None:
        self.chat("middle prompt", *MIDDLE)

    @task(1)
    def long_document(self) -> None:
        self.chat("long document", *LONG)

    def chat(self, name: str, prompt_tokens: int, answer_tokens: int) -> None:
        """One request; fails if the answer has no end of its own, or an error in it."""
        body = {
            "model": self.model,
            "messages": messages(prompt_tokens),
            "stream": True,
            "max_tokens": answer_tokens,
            "ignore_eos": True,
        }
        began_at = time.perf_counter()
        with self.client.post(
            "/v1/chat/completions", json=body, stream=True, catch_response=True, name=name
        ) as response:
            if response.status_code != 200:
                response.failure(f"status {response.status_code}")
                return
            begun = ended = False
            for chunk in chunks(response.iter_content(chunk_size=None)):
                if "error" in chunk:
                    response.failure("error in the answer")
                    return
                for choice in chunk.get("choices") or ():
                    delta = choice.get("delta") or {}
                    said = delta.get("content") or delta.get("reasoning") or delta.get("reasoning_content")
                    if said and not begun:
                        begun = True
                        self.tell_first(name, (time.perf_counter() - began_at) * 1e3)
                    ended = ended or bool(choice.get("finish_reason"))
            # Locust counts up to the headers of a streamed answer; what counts is its end.
            response.request_meta["response_time"] = (time.perf_counter() - began_at) * 1e3
            if not ended:
                response.failure("cut off")

    def tell_first(self, name: str, milliseconds: float) -> None:
        """The first word has come."""
        self.environment.events.request.fire(
            request_type="FIRST", name=name, response_time=milliseconds, response_length=0, exception=None, context={}
        )


def messages(prompt_tokens: int) -> list[dict[str, str]]:
    """Words about as long as that, and none that an engine has read before: they begin with a number of their own."""
    chars = max(2 * QUESTION_CHARS, prompt_tokens * CHARS_PER_TOKEN) - QUESTION_CHARS
    text = f"{_start}-{next(_numbers)} " + " ".join(random.choices(WORDS.split(), k=chars // 3))
    question = " ".join(random.choices(WORDS.split(), k=QUESTION_CHARS // 3))
    return [
        {"role": "system", "content": text[:chars]},
        {"role": "user", "content": question[:QUESTION_CHARS]},
    ]


def chunks(pieces: Iterator[bytes]) -> Iterator[dict]:
    """The events of a stream."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n\n")
        for event in whole:
            if event.startswith(b"data: {"):
                yield json.loads(event[6:])
