"""What the files of a deployment call by its name is there: settings, metrics, files."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from buffer.gauge_metrics import BackendGauges, Gauges
from buffer.setting_sources import CONFIG_VARIABLE, load_settings, variable_of
from buffer.settings import Settings
from buffer.telemetry import Telemetry
from tests.deploy.files import DEPLOY, alert_rules, dashboard_panels, deployment_files
from worker.gpu import FIGURES

SETTINGS = {variable_of(name) for name in Settings.model_fields} | {CONFIG_VARIABLE}


def metric_names() -> set[str]:
    """Of every sample that a gateway with a back end or a worker beside a GPU could show; histograms by their three,
    counters by their one."""
    gauges = Gauges({"fast": 1}, {"fast": 1.0}, {"big": BackendGauges(1, 1, True, False)}, 1)
    names = {f"doublebuffer_gpu_{name}" for name in FIGURES}
    for family in text_string_to_metric_families(Telemetry().exposition(gauges).decode()):
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        names.update(family.name + suffix for suffix in suffixes)
    return names


def test_every_setting_that_a_deployment_names_is_one() -> None:
    named = {
        (name, str(path.relative_to(DEPLOY.parent)))
        for path in deployment_files()
        for name in re.findall(r"\bDOUBLEBUFFER_[A-Z_]*[A-Z]\b", path.read_text())
    }
    assert named, "the deployment names no setting: has it moved?"
    assert {(name, where) for name, where in named if name not in SETTINGS} == set()


def test_the_settings_of_the_compose_file_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOUBLEBUFFER_BACKENDS", raising=False)
    settings = load_settings(config=str(DEPLOY / "compose" / "doublebuffer.toml"))
    assert {spec.kind for spec in settings.backends} == {"ollama", "vllm", "llamacpp"}


@pytest.mark.parametrize("rule", alert_rules(), ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_metrics_that_exist(rule: dict[str, str]) -> None:
    asked = set(re.findall(r"\bdoublebuffer_\w+", rule["expr"]))
    assert asked <= metric_names()
    assert asked or "up{" in rule["expr"]


@pytest.mark.parametrize("panel", dashboard_panels(), ids=lambda panel: panel["title"])
def test_a_panel_asks_for_metrics_that_exist(panel: dict[str, list[dict[str, str]]]) -> None:
    for target in panel["targets"]:
        asked = set(re.findall(r"\bdoublebuffer_\w+", target["expr"]))
        assert asked
        assert asked <= metric_names()


def test_every_alert_is_told_what_to_do_about() -> None:
    page = (DEPLOY.parent / "docs" / "operations.md").read_text()
    assert set(re.findall(r"`(Doublebuffer[A-Z]\w+)`", page)) == {rule["alert"] for rule in alert_rules()}


def test_links_lead_somewhere() -> None:
    page = DEPLOY / "README.md"
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert links
    assert [link for link in links if not (DEPLOY / link).exists()] == []
