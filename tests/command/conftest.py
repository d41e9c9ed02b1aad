"""Commands and settings see nothing of the machine that the tests run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from buffer.setting_sources import variable_of
from buffer.settings import Settings


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty folder and an environment without any setting."""
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(variable_of(name), raising=False)
    for name in ("OLLAMA_BASE_URL", "OLLAMA_API_BASE_URL", "VLLM_BASE_URL", "USE_REDIS_QUEUE"):
        monkeypatch.delenv(name, raising=False)
