"""``doublebuffer batch run`` and the offline batches of ``doublebuffer up``."""

from __future__ import annotations

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from doublebuffer.batch_calls import BatchRunError
from doublebuffer.batch_run import BatchRun
from tests.offline.many import CHATS, EMBEDDINGS
from tests.rig.processes import Process, run_command, run_to_end

pytestmark = pytest.mark.slow
MODEL = "simulated-qwen3:14b"


def lines(*names: str, **body: Any) -> str:
    body = {"model": MODEL, "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]} | body
    return "".join(
        json.dumps({"custom_id": name, "method": "POST", "url": CHATS, "body": body}) + "\n" for name in names
    )


def ids(path: Path) -> list[str]:
    return sorted(json.loads(line)["custom_id"] for line in path.read_text().splitlines())


async def batch_run(up: Process, folder: Path, *flags: str) -> tuple[int, str]:
    command = ("batch", "run", "in.jsonl", "-o", "out.jsonl", "--url", up.url, *flags)
    code, _, log = await run_to_end(command, directory=folder)
    return code, log


async def test_a_file_is_answered_and_what_is_there_is_not_asked_again(tmp_path: Path) -> None:
    wanted = tmp_path / "in.jsonl"
    wanted.write_text(lines("a", "b") + lines("bad", temperature="hot"))
    async with run_command("up", "--port", "0", "--embedded", "memory") as up:
        await up.is_healthy("/health/ready")
        code, log = await batch_run(up, tmp_path)
        assert (code, ids(tmp_path / "out.jsonl")) == (1, ["a", "b"]), log
        assert ids(tmp_path / "out.errors.jsonl") == ["bad"]
        assert "1 failed, in out.errors.jsonl" in log

        before = (tmp_path / "out.jsonl").read_text()
        wanted.write_text(lines("a", "b", "c", "bad"))
        code, log = await batch_run(up, tmp_path, "--url", f"{up.url}/v1")
        assert (code, ids(tmp_path / "out.jsonl")) == (0, ["a", "b", "bad", "c"]), log
        assert (tmp_path / "out.jsonl").read_text().startswith(before)
        assert not (tmp_path / "out.errors.jsonl").exists()
        assert "2 answered" in log

        code, log = await batch_run(up, tmp_path)
        assert (code, log) == (0, "All of it is in out.jsonl already.\n")
        assert sorted(os.listdir(tmp_path)) == ["in.jsonl", "out.jsonl"]
        async with httpx.AsyncClient(base_url=up.url, trust_env=False) as client:
            assert (await client.get("/v1/files")).json()["data"] == [], "what was fetched is kept nowhere else"
            told = (await client.get("/metrics")).text
    assert 'doublebuffer_requests_total{api="batch",lane="background",outcome="ok"} 4.0' in told


async def test_one_that_was_stopped_waits_for_the_batch_that_runs(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(lines("a", "since"))
    async with run_command("up", "--port", "0", "--embedded", "memory") as up:
        await up.is_healthy("/health/ready")
        async with httpx.AsyncClient(base_url=f"{up.url}/v1", trust_env=False) as client:
            file = (
                await client.post("/files", data={"purpose": "batch"}, files={"file": ("i.jsonl", lines("a"))})
            ).json()
            wanted = {"input_file_id": file["id"], "endpoint": CHATS, "completion_window": "24h"}
            batch = (await client.post("/batches", json=wanted)).json()
        note = {"batch": batch["id"], "url": up.url}
        (tmp_path / ".out.jsonl.batch").write_text(json.dumps(note))
        code, log = await batch_run(up, tmp_path)
        assert (code, ids(tmp_path / "out.jsonl")) == (0, ["a", "since"]), log
        async with httpx.AsyncClient(base_url=f"{up.url}/v1", trust_env=False) as client:
            since, first = (await client.get("/batches")).json()["data"]
        assert (first["id"], first["request_counts"]["total"]) == (batch["id"], 1)
        assert since["request_counts"]["total"] == 1, "only the line that came since"


async def test_what_is_wrong_is_said_in_a_sentence(tmp_path: Path) -> None:
    async with run_command("up", "--port", "0", "--embedded", "memory", "--api-keys", "ann:secret") as up:
        await up.is_healthy("/health/ready")
        for text, flags, expected in (
            (lines("a"), (), "The gateway asks for a key: give one as --key."),
            (
                lines("a", "a"),
                ("--key", "secret"),
                "in.jsonl, line 2: The custom_id of this line is that of a line before",
            ),
            ("what?\n", ("--key", "secret"), "in.jsonl, line 1: no request with a custom_id."),
            ("\n", ("--key", "secret"), "There is no request in in.jsonl."),
            (
                lines("a") + lines("b").replace(CHATS, EMBEDDINGS),
                ("--key", "secret"),
                f"in.jsonl, line 2: this line is for {EMBEDDINGS}, those before it for {CHATS}; put",
            ),
            (lines("a"), ("--key", "secret", "-o", "away/out.jsonl"), "There is no folder away, for out.jsonl."),
            (lines("a"), ("--key", "secret", "-o", "in.jsonl"), "are kept in three files; give each another name."),
            (lines("a"), ("--key", "secret", "--errors", "./in.jsonl"), "are kept in three files; give each another"),
        ):
            (tmp_path / "in.jsonl").write_text(text)
            code, log = await batch_run(up, tmp_path, *flags)
            assert (code, expected in log) == (2, True), log
            assert not (tmp_path / "out.jsonl").exists()
        async with httpx.AsyncClient(base_url=f"{up.url}/v1", trust_env=False) as client:
            client.headers["authorization"] = "Bearer secret"
            assert (await client.get("/files")).json()["data"] == []


async def test_no_gateway_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(lines("a"))
    command = ("batch", "run", "in.jsonl", "-o", "out.jsonl", "--url", "http://127.0.0.1:9")
    code, _, log = await run_to_end(command, directory=tmp_path)
    assert (code, "http://127.0.0.1:9 does not answer" in log) == (2, True), log


class Slow(BaseHTTPRequestHandler):
    """A gateway whose batches nobody begins for a while; then the first look finds something wrong."""

    states: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        state = self.states.pop() if self.path.endswith("/b") else "validating"
        counts = {"total": 0, "completed": 0, "failed": 0}
        told = {"id": "b", "status": state, "request_counts": counts, "errors": None, "input_file_id": "f"}
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


def test_who_waits_for_a_batch_that_nobody_begins_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("doublebuffer.batch_run.POLL_S", 0.01)
    monkeypatch.setattr("doublebuffer.batch_run.BEGUN_S", 0.0)
    monkeypatch.setattr(Slow, "states", ["failed", "validating", "validating"])
    (tmp_path / "in.jsonl").write_text(lines("a"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        files = [str(tmp_path / name) for name in ("in.jsonl", "out.jsonl", "out.errors.jsonl")]
        with pytest.raises(BatchRunError, match="it could not be begun"):
            BatchRun(f"http://127.0.0.1:{server.server_port}", "", *files).run()
        server.shutdown()
    assert capsys.readouterr().err.count("a `doublebuffer batch-worker` has to run") == 1
