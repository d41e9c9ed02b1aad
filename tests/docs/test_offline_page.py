"""The example of docs/offline.md, run as it is written: only the port, the model and the pause are others."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.command.test_up import up_on_llama
from tests.docs.pages import ROOT, blocks_of
from tests.rig.llama import LlamaServer

PAGE = ROOT / "docs" / "offline.md"
BASE = "http://localhost:11435/v1"
PAUSE = "time.sleep(5)"


async def test_the_example_gets_both_answers(llama_server: LlamaServer, tmp_path: Path) -> None:
    lines, example = blocks_of(PAGE, "json")[0], blocks_of(PAGE, "python")[0]
    assert example.count(BASE) == example.count(PAUSE) == 1
    model = json.loads(lines.splitlines()[0])["body"]["model"]
    (tmp_path / "lines.jsonl").write_text(lines.replace(model, llama_server.model))
    async with up_on_llama(llama_server) as up:
        program = example.replace(BASE, f"{up.url}/v1").replace(PAUSE, "time.sleep(0.1)")
        run = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(60):
            out, _ = await run.communicate()
    first, *rest = out.decode().splitlines()
    assert first.startswith("completed BatchRequestCounts(completed=2, failed=0, total=2) None")
    answers = [json.loads(line) for line in rest if line]
    assert sorted(answer["custom_id"] for answer in answers) == ["review-1", "review-2"]
    assert all(answer["response"]["body"]["choices"][0]["message"]["content"] for answer in answers)
