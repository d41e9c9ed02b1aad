"""The units, as systemd itself reads them; and they say the same of what is the same."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from buffer.settings import Settings
from tests.deploy.files import SYSTEMD

UNITS = sorted(SYSTEMD.glob("*.service"))
INSTALLED = "/opt/doublebuffer/.venv/bin/doublebuffer"
MOST_EXPOSED = 2.0
"""Of systemd's ten; what it calls OK begins below 5."""


@pytest.mark.debian
def test_systemd_takes_them(tmp_path: Path) -> None:
    for unit in UNITS:
        text = unit.read_text()
        assert INSTALLED in text
        # That it is installed is checked too, and here it is somewhere else.
        (tmp_path / unit.name).write_text(text.replace(INSTALLED, str(Path(sys.executable).parent / "doublebuffer")))
    files = [str(path) for path in tmp_path.iterdir()]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *files], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.debian
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_little_of_the_machine_is_open_to_them(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        check=True,
    )
    exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert exposure is not None, done.stdout
    assert float(exposure[1]) <= MOST_EXPOSED


def test_all_are_locked_up_alike() -> None:
    assert len(UNITS) == 3
    assert len({unit.read_text().partition("NoNewPrivileges")[2] for unit in UNITS}) == 1


def test_gateway_and_batch_worker_have_one_folder_that_nobody_else_can_read() -> None:
    for unit in UNITS:
        text = unit.read_text()
        told = "Environment=DOUBLEBUFFER_FILES=/var/lib/doublebuffer\n" in text
        assert told == ("StateDirectory=doublebuffer\nStateDirectoryMode=0700\n" in text) == ("@" not in unit.name)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_there_is_time_to_drain(unit: Path) -> None:
    stop_s = re.search(r"^TimeoutStopSec=(\d+)$", unit.read_text(), re.MULTILINE)
    assert stop_s is not None
    assert int(stop_s[1]) >= Settings.model_fields["drain_seconds"].default + 10
