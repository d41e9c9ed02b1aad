"""``doublebuffer batch run``: a file goes up, its answers come down, and what is there already is not asked again."""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from doublebuffer.batch_calls import POLL_S, BatchRunError, Calls
from doublebuffer.batch_progress import Bar

BEGUN_S = 20.0
"""After that long without a sign that somebody runs the batch, its user is told what may be missing."""
ENDS = frozenset({"completed", "failed", "expired", "cancelled"})


class _Asked(Struct):
    custom_id: str
    url: str = ""


class _Under(Struct):
    """What is noted beside the output while a batch runs."""

    batch: str
    url: str


_asked = msgspec.json.Decoder(_Asked)
_under = msgspec.json.Decoder(_Under)


class BatchRun:
    """One run. ``url``: of the gateway; ``key``: empty where it asks for none; the others are files."""

    def __init__(self, url: str, key: str, input: str, output: str, errors: str) -> None:
        self._url = url.rstrip("/").removesuffix("/v1")  # as other clients are given it
        self._input, self._output, self._errors = Path(input), Path(output), Path(errors)
        self._note = self._output.with_name(f".{self._output.name}.batch")
        self._calls = Calls(self._url, key)

    def run(self) -> int:
        """0: all is answered; 1: something failed. Raises ``BatchRunError``."""
        try:
            with self._calls:
                return self._run()
        except OSError as error:
            raise BatchRunError(f"{error.filename or self._output}: {error.strerror}.") from None

    def _run(self) -> int:
        for path in (self._output, self._errors):
            if not path.parent.is_dir():
                raise BatchRunError(f"There is no folder {path.parent}, for {path.name}.")
        paths = self._input, self._output, self._errors
        if len({path.resolve() for path in paths}) < len(paths):
            raise BatchRunError("Requests, answers and errors are kept in three files; give each another name.")
        batch = self._under_way()
        if batch is not None and (code := self._finish(batch)):
            return code
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as rest:
            count, endpoint = self._left(rest)
            if not count:
                if batch is None:
                    print(f"All of it is in {self._output} already.", file=sys.stderr)
                return 0
            batch = self._begin(rest, endpoint)
        return self._finish(batch)

    def _finish(self, batch: dict[str, Any]) -> int:
        """Waits for it, and fetches what came of it; the gateway need not keep that then."""
        batch = self._watch(batch)
        answered = self._add(batch["output_file_id"])
        failed = self._replace(batch["error_file_id"])
        self._note.unlink(missing_ok=True)
        for id in (batch["input_file_id"], batch["output_file_id"], batch["error_file_id"]):
            self._calls.delete(id)
        return self._tell(batch, answered, failed)

    def _under_way(self) -> dict[str, Any] | None:
        """The batch that an earlier run began, if it is still known."""
        try:
            noted = _under.decode(self._note.read_bytes())
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        if noted.url != self._url:
            raise BatchRunError(
                f"A batch for this output runs at {noted.url}: give that as --url, or remove {self._note}."
            )
        answer = self._calls.ask("GET", f"/batches/{noted.batch}")
        return None if answer.status_code == 404 else self._calls.good(answer)

    def _left(self, to: IO[bytes]) -> tuple[int, str]:
        """Writes what has no answer yet; how many lines those are, and what they ask."""
        there = {line.custom_id for line in _lines(self._output)} if self._output.exists() else set()
        seen, count, endpoint = 0, 0, ""
        with self._input.open("rb") as file:
            for number, data in enumerate(file, 1):
                if not data.strip():
                    continue
                try:
                    line = _asked.decode(data.removeprefix(b"\xef\xbb\xbf"))
                except msgspec.DecodeError:
                    raise BatchRunError(f"{self._input}, line {number}: no request with a custom_id.") from None
                seen += 1
                endpoint = endpoint or line.url
                if line.url != endpoint:
                    raise BatchRunError(
                        f"{self._input}, line {number}: this line is for {line.url or 'no url'}, those before it for "
                        f"{endpoint}; put what is for another url into a file of its own."
                    )
                if line.custom_id not in there:
                    count += 1
                    to.write(data if data.endswith(b"\n") else data + b"\n")
        if not seen:
            raise BatchRunError(f"There is no request in {self._input}.")
        to.flush()
        return count, endpoint

    def _begin(self, rest: IO[bytes], endpoint: str) -> dict[str, Any]:
        rest.seek(0)
        upload = {"file": (f"{self._input.stem}.jsonl", rest, "application/jsonl")}
        file = self._calls.good(self._calls.once("POST", "/files", data={"purpose": "batch"}, files=upload))
        wanted = {"input_file_id": file["id"], "endpoint": endpoint, "completion_window": "24h"}
        batch = self._calls.good(self._calls.once("POST", "/batches", json=wanted))
        self._note.write_bytes(msgspec.json.encode(_Under(batch["id"], self._url)))
        return batch

    def _watch(self, batch: dict[str, Any]) -> dict[str, Any]:
        begun_by = time.monotonic() + BEGUN_S
        with Bar() as bar:
            while batch["status"] not in ENDS:
                counts = batch["request_counts"]
                bar.show(batch["status"], counts["completed"], counts["failed"], counts["total"])
                time.sleep(POLL_S)
                if batch["status"] == "validating" and time.monotonic() > begun_by:
                    bar.say(
                        "Nobody has begun it yet: a `doublebuffer batch-worker` has to run beside gateway and worker."
                    )
                    begun_by = math.inf
                batch = self._calls.good(self._calls.ask("GET", f"/batches/{batch['id']}"))
        if batch["status"] == "failed":
            self._note.unlink(missing_ok=True)
            self._calls.delete(batch["input_file_id"])
            found = (batch["errors"] or {}).get("data") or [{"message": "it could not be begun.", "line": None}]
            where = f"{self._input}, line {found[0]['line']}" if found[0]["line"] else str(self._input)
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise BatchRunError(f"{where}: {found[0]['message']}{more}")
        return batch

    def _add(self, id: str | None) -> int:
        """Puts the answers behind those that are there, all or none, and on disk for good."""
        there = {line.custom_id for line in _lines(self._output)} if self._output.exists() else set()
        draft = self._output.with_name(f".{self._output.name}.new")
        count = 0
        with draft.open("wb") as out:
            if self._output.exists():
                with self._output.open("rb") as before:
                    for data in before:
                        out.write(data if data.endswith(b"\n") else data + b"\n")
            for data in self._calls.content(id):
                if _asked.decode(data).custom_id not in there:
                    out.write(data)
                    count += 1
            out.flush()
            os.fsync(out.fileno())
        draft.replace(self._output)
        return count

    def _replace(self, id: str | None) -> int:
        if id is None:
            self._errors.unlink(missing_ok=True)
            return 0
        count = 0
        with self._errors.open("wb") as out:
            for data in self._calls.content(id):
                out.write(data)
                count += 1
        return count

    def _tell(self, batch: dict[str, Any], answered: int, failed: int) -> int:
        print(f"{answered} answered, in {self._output}", file=sys.stderr)
        if failed:
            print(f"{failed} failed, in {self._errors}", file=sys.stderr)
        if batch["status"] != "completed":
            print(f"The batch is {batch['status']}; the same command asks the rest again.", file=sys.stderr)
        return 1 if failed or batch["status"] != "completed" else 0


def _lines(path: Path) -> Iterator[_Asked]:
    """What it has answers to. A last line that was cut off is none."""
    with path.open("rb") as file:
        for data in file:
            try:
                yield _asked.decode(data)
            except msgspec.DecodeError:
                continue
