"""``python -m tests.offline.many``: offline batches over the real llama.cpp server, by the official client, while the
batch worker, its work-horse and a worker are killed and Redis is restarted; and whether the result is as it has to be.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openai
from openai.types import Batch

from tests.rig.llama import LlamaServer, run_llama
from tests.rig.processes import Process, run_command
from tests.rig.redis_server import RedisServer, free_port, run_redis

AOF = ("--appendonly", "yes", "--appendfsync", "everysec")
"""As docs/redis.md has it: a restart may lose the last second."""
WRONG_EVERY = 40
CHATS, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"
AWAY_S = 1.5


@dataclass
class Installation:
    """Its processes, each of which may be killed and started anew."""

    redis: RedisServer
    engine: LlamaServer
    environment: dict[str, str]
    gateway: Process
    stack: AsyncExitStack
    workers: list[Process] = field(default_factory=list)
    batch_workers: list[Process] = field(default_factory=list)

    async def worker(self) -> None:
        self.workers.append(await self.stack.enter_async_context(self._command("worker")))
        await self.workers[-1].has_said("worker")

    async def batch_worker(self) -> None:
        command = run_command("batch-worker", "--metrics-port", str(free_port()), environment=self.environment)
        self.batch_workers.append(await self.stack.enter_async_context(command))
        await self.batch_workers[-1].has_said("metrics")

    def client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.gateway.url}/v1", api_key="none", max_retries=10)

    def _command(self, name: str) -> Any:
        return run_command(name, environment=self.environment)

    def horses(self) -> list[int]:
        """The work-horses of all batch workers."""
        pids = [child.pid for child in self.batch_workers if child.exit_code is None]
        return [int(pid) for each in pids for pid in _children(each)]


def _children(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []


@asynccontextmanager
async def installation(*, slots: int = 8, workers: int = 2, files: bool = True) -> AsyncIterator[Installation]:
    """``files``: in a folder; else in Redis."""
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(run_redis(*AOF))
        engine = stack.enter_context(run_llama(slots=slots, context=512, embeddings=True))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="doublebuffer-files-"))
        backends = [{"name": "llama", "kind": "llamacpp", "url": engine.url}]
        environment = {
            "REDIS_URL": redis.url,
            "DOUBLEBUFFER_BACKENDS": json.dumps(backends),
            "DOUBLEBUFFER_LEASE_SECONDS": "5",
            "DOUBLEBUFFER_PORT": "0",
        }
        if files:
            environment["DOUBLEBUFFER_FILES"] = folder
        gateway = await stack.enter_async_context(run_command("gateway", environment=environment))
        here = Installation(redis, engine, environment, gateway, stack)
        for _ in range(workers):
            await here.worker()
        await here.batch_worker()
        await gateway.is_healthy("/health/ready")
        yield here


def line(number: int, endpoint: str, model: str) -> dict[str, Any]:
    """A request; each ``WRONG_EVERY``-th is one that the endpoint refuses."""
    if endpoint == CHATS:
        messages = [{"role": "user", "content": f"Say a word about the number {number}."}]
        body: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": 4 + number % 8, "temperature": 0}
        if is_wrong(number):
            body["temperature"] = "hot"
    else:
        body = {"model": model, "input": [f"Text {number}.", f"Another text {number}."][: 1 + number % 2]}
        if is_wrong(number):
            body["input"] = {"not": "a text"}
    return {"custom_id": f"id-{number}", "method": "POST", "url": endpoint, "body": body}


def is_wrong(number: int) -> bool:
    return number % WRONG_EVERY == WRONG_EVERY - 1


async def begin(client: openai.AsyncOpenAI, endpoint: str, lines: Sequence[dict[str, Any]]) -> Batch:
    data = "".join(json.dumps(one) + "\n" for one in lines).encode()
    file = await client.files.create(file=("lines.jsonl", data), purpose="batch")
    return await client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h")  # type: ignore[arg-type]


async def results(client: openai.AsyncOpenAI, batch: Batch) -> dict[str, list[tuple[bool, Any]]]:
    """By custom_id: each result, whether it is of the output file, and what it says."""
    found: dict[str, list[tuple[bool, Any]]] = collections.defaultdict(list)
    for ok, id in ((True, batch.output_file_id), (False, batch.error_file_id)):
        if id is None:
            continue
        content = await client.files.content(id)
        for one in content.content.splitlines():
            told = json.loads(one)
            found[told["custom_id"]].append((ok, told))
    return found


def faults_of(found: dict[str, list[tuple[bool, Any]]], batch: Batch, endpoint: str, lines: int) -> list[str]:
    """What is not as it has to be."""
    wrong = []
    for number in range(lines):
        told = found.pop(f"id-{number}", [])
        if len(told) != 1:
            wrong.append(f"id-{number}: {len(told)} results")
            continue
        ok, result = told[0]
        response = result["response"]
        if ok is is_wrong(number) or result["error"] is not None:
            wrong.append(f"id-{number}: {'answered' if ok else 'failed'}: {str(result)[:200]}")
        elif not ok and response["status_code"] != 400:
            wrong.append(f"id-{number}: status {response['status_code']}")
        elif ok and endpoint == CHATS and not _said(response["body"]):
            wrong.append(f"id-{number}: an empty answer")
        elif ok and endpoint == EMBEDDINGS and len(response["body"]["data"]) != 1 + number % 2:
            wrong.append(f"id-{number}: {len(response['body']['data'])} vectors")
    wrong += [f"{id}: nobody asked for it" for id in found]
    bad = sum(map(is_wrong, range(lines)))
    counts = batch.request_counts
    assert counts is not None
    if (counts.total, counts.completed, counts.failed) != (lines, lines - bad, bad):
        wrong.append(f"counts are {counts}")
    return wrong


def _said(body: dict[str, Any]) -> bool:
    """With so few tokens, the model may not have come further than to its thoughts."""
    message = body["choices"][0]["message"]
    return bool(message.get("content") or message.get("reasoning_content")) and body["usage"]["completion_tokens"] > 0


async def harm(here: Installation, step: int) -> str:
    """One fault after the other."""
    match step:
        case 0:
            here.batch_workers[-1].kill()
            await here.batch_worker()
            return "batch worker killed, another started"
        case 1:
            here.workers.pop(0).kill()
            await here.worker()
            return "worker killed, another started"
        case 2:
            here.redis.stop()
            await asyncio.sleep(AWAY_S)
            here.redis.start()
            return f"Redis killed, and started after {AWAY_S} s"
        case _:
            horses = here.horses()
            for pid in horses:
                os.kill(pid, signal.SIGKILL)
            return f"{len(horses)} work-horses killed"


async def watch(here: Installation, client: openai.AsyncOpenAI, batches: list[Batch], *, harms: int) -> list[Batch]:
    """Polls to the end, and does harm on the way, evenly spread over it."""
    began_at, step, last = time.monotonic(), 0, ""
    while True:
        batches = [await client.batches.retrieve(batch.id) for batch in batches]
        counts = [batch.request_counts for batch in batches]
        done = sum(count.completed + count.failed for count in counts if count)
        total = sum(count.total for count in counts if count)
        told = f"{time.monotonic() - began_at:6.1f} s  {done}/{total}  {', '.join(batch.status for batch in batches)}"
        if told[8:] != last:
            print(told, flush=True)
            last = told[8:]
        if all(batch.status in {"completed", "failed", "expired", "cancelled"} for batch in batches):
            return batches
        if total and step < harms and done >= total * (step + 1) / (harms + 1):
            print(f"          {await harm(here, step)}", flush=True)
            step += 1
        await asyncio.sleep(1.0)


async def main(lines: int, *, harms: int, files: bool) -> int:
    began_at = time.monotonic()
    async with installation(files=files) as here:
        client = here.client()
        endpoints = (CHATS, EMBEDDINGS)
        batches = [
            await begin(client, endpoint, [line(number, endpoint, here.engine.model) for number in range(lines)])
            for endpoint in endpoints
        ]
        batches = await watch(here, client, batches, harms=harms)
        wrong = []
        for endpoint, batch in zip(endpoints, batches, strict=True):
            found = await results(client, batch)
            if batch.status != "completed":
                wrong.append(f"{endpoint}: {batch.status}")
            wrong += [f"{endpoint}: {fault}" for fault in faults_of(found, batch, endpoint, lines)]
            print(f"{endpoint}: {batch.status}, {batch.request_counts}")
        for process in (here.gateway, *here.workers, *here.batch_workers):
            for entry in process.log.splitlines():
                if "ERROR" in entry or "WARNING" in entry or "Traceback" in entry:
                    print(f"{process.command}: {entry}")
    print(f"{2 * lines} lines in {time.monotonic() - began_at:.0f} s; load {os.getloadavg()[0]:.1f}")
    print("\n".join(wrong[:20]) or "each custom_id once, and as it has to be")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=2000, help="of each of the two batches")
    parser.add_argument("--harms", type=int, default=4, help="0: nothing is killed")
    parser.add_argument("--in-redis", action="store_true", help="files in Redis instead of in a folder")
    asked = parser.parse_args()
    raise SystemExit(asyncio.run(main(asked.lines, harms=asked.harms, files=not asked.in_redis)))
