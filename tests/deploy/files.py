"""Where the files of a deployment are, and what they say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = ROOT / "docker-compose.yml"
ENVIRONMENT = ROOT / ".env.example"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "doublebuffer.json"
CHART = DEPLOY / "helm" / "doublebuffer"
SYSTEMD = DEPLOY / "systemd"


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def deployment_files() -> Iterator[Path]:
    """Every text file that an operator is given."""
    yield COMPOSE
    yield ENVIRONMENT
    for path in sorted(DEPLOY.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            yield path


def alert_rules() -> list[dict[str, Any]]:
    return [rule for group in read_yaml(ALERTS)["groups"] for rule in group["rules"]]


def dashboard_panels() -> list[dict[str, Any]]:
    """Those that show something."""
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]
