"""The Helm chart, rendered by helm itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.files import CHART

SETS = ("household", "company", "cluster")
RELEASE, NAMESPACE = "doublebuffer", "llm"

Resource = dict[str, Any]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Raises ``AssertionError`` if there is no helm."""
    program = shutil.which("helm") or str(Path(sys.executable).parent / "helm")
    assert Path(program).exists(), "no helm: `make test-all` brings one"
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def template(*arguments: str) -> subprocess.CompletedProcess[str]:
    return helm("template", RELEASE, str(CHART), "--namespace", NAMESPACE, *arguments)


@cache
def rendered(values: str) -> list[Resource]:
    """All resources of one of the sets. Raises ``AssertionError`` with helm's words if it renders none."""
    done = template("--values", str(CHART / "ci" / f"{values}.yaml"))
    assert done.returncode == 0, done.stderr
    return [resource for resource in yaml.safe_load_all(done.stdout) if resource]


def of_kind(values: str, kind: str) -> dict[str, Resource]:
    """Resources by name, without the release's."""
    return {
        resource["metadata"]["name"].removeprefix(f"{RELEASE}-"): resource
        for resource in rendered(values)
        if resource["kind"] == kind
    }


def pods(values: str) -> dict[str, Resource]:
    """Specifications of pods, by the part that they are."""
    workloads = of_kind(values, "Deployment") | of_kind(values, "StatefulSet")
    return {name: workload["spec"]["template"]["spec"] for name, workload in workloads.items()}


def autoscaler_queries() -> list[str]:
    """What KEDA asks Prometheus."""
    (scaled,) = of_kind("cluster", "ScaledObject").values()
    return [trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]]
