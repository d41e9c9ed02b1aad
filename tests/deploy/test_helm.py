"""The Helm chart for a household, a company and a cluster: rendered by helm, valid by the schemas of what it makes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from buffer.setting_sources import load_settings
from buffer.settings import Settings
from tests.deploy.chart import SETS, Resource, autoscaler_queries, helm, of_kind, pods, rendered, template
from tests.deploy.files import ALERTS, CHART, DASHBOARD, DEPLOY
from tests.deploy.test_names import metric_names

pytestmark = pytest.mark.debian

NODE = Path(__file__).with_name("node")
CUSTOM = {"ScaledObject", "ServiceMonitor", "PrometheusRule"}
OLDEST, NEWEST = "1.25", kubernetes_validate.latest_version()


@pytest.mark.parametrize("values", SETS)
def test_helm_finds_nothing_to_say(values: str) -> None:
    done = helm("lint", "--strict", "--quiet", str(CHART), "--values", str(CHART / "ci" / f"{values}.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout


@pytest.mark.parametrize("values", SETS)
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_kubernetes_knows_every_field(values: str, version: str) -> None:
    plain = [resource for resource in rendered(values) if resource["kind"] not in CUSTOM]
    assert len(plain) > 5
    for resource in plain:
        kubernetes_validate.validate(resource, version, strict=True)


def test_keda_and_the_prometheus_operator_take_theirs() -> None:
    resources = [resource for values in SETS for resource in rendered(values) if resource["kind"] in CUSTOM]
    assert {resource["kind"] for resource in resources} == CUSTOM
    assert checked(resources) == []
    broken = json.loads(json.dumps(of_kind("cluster", "ScaledObject")["worker"]))
    broken["spec"]["minReplicaCount"] = "three"
    broken["spec"]["minReplicaKount"] = 3
    said = str(checked([broken]))
    assert "minReplicaCount must be integer" in said
    assert "no such field: minReplicaKount" in said


def checked(resources: list[Resource]) -> list[list[str]]:
    """What their schemas say is wrong. A field that no schema has is wrong as well."""
    done = subprocess.run(
        ["node", "check.mjs"], cwd=NODE, input=json.dumps(resources), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    wrong: list[list[str]] = json.loads(done.stdout)
    known = "".join(
        path.read_text()
        for group in (
            "@kubernetes-models/keda",
            "@kubernetes-models/prometheus-operator",
            "kubernetes-models/autoscaling",
        )
        for path in (NODE / "node_modules" / group).rglob("*.d.ts")
    )
    for resource in resources:
        unknown = [name for name in fields(resource["spec"]) if not re.search(rf'"{name}"\??:', known)]
        wrong += [[resource["metadata"]["name"], f"no such field: {name}"] for name in unknown]
    return wrong


def fields(value: Any) -> set[str]:
    """Names of all fields, but for those that are anybody's to choose."""
    if isinstance(value, list):
        return set().union(*map(fields, value))
    if not isinstance(value, dict):
        return set()
    free = {"metadata", "selector", "labels", "annotations"}
    return set(value).union(*(fields(more) for name, more in value.items() if name not in free))


@pytest.mark.parametrize("values", SETS)
def test_pods_are_locked_up_and_are_told_nothing_by_kubernetes(values: str) -> None:
    for name, pod in pods(values).items():
        assert pod["enableServiceLinks"] is False, f"{name}: DOUBLEBUFFER_PORT would be an address"
        # Only workers that scale something have any right in the cluster.
        scales = name == "worker" and values != "household"
        assert pod["automountServiceAccountToken"] is scales
        assert ("serviceAccountName" in pod) == scales
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert {"readinessProbe", "livenessProbe"} <= set(container), name


@pytest.mark.parametrize(
    ("values", "drain_s"), [("household", Settings.model_fields["drain_seconds"].default), ("cluster", 120)]
)
def test_pods_have_time_to_drain(values: str, drain_s: float) -> None:
    for name in ("gateway", "worker", "batch-worker"):
        pod = pods(values)[name]
        stop = pod["containers"][0].get("lifecycle", {}).get("preStop", {"exec": {"command": ["sleep", "0"]}})
        assert pod["terminationGracePeriodSeconds"] >= drain_s + int(stop["exec"]["command"][1]) + 15


@pytest.mark.parametrize("values", ["household", "company"])
def test_the_settings_can_be_used_and_each_part_has_the_keys_it_needs(values: str, tmp_path: Path) -> None:
    asked = yaml.safe_load((CHART / "ci" / f"{values}.yaml").read_text())["settings"]
    files = of_kind(values, "Secret")["settings"]["stringData"]
    read = {}
    for part in ("gateway", "worker"):
        file = tmp_path / f"{part}.toml"
        file.write_text(files[f"{part}.toml"])
        read[part] = load_settings(config=str(file))
    assert [spec.name for spec in read["worker"].backends] == [spec["name"] for spec in asked["backends"]]
    assert [key.name for key in read["gateway"].api_keys] == [key["name"] for key in asked.get("keys", [])]
    assert read["worker"].api_keys == []
    assert "api_key" not in files["gateway.toml"]
    assert ("sent-to-the-engine" in files["worker.toml"]) == (values == "company")
    assert read["gateway"].model_dump(exclude={"backends", "api_keys"}) == read["worker"].model_dump(
        exclude={"backends", "api_keys"}
    )
    if values == "company":
        assert list(read["worker"].models[0].tags or ()) == ["<think>", "</think>"]
        assert dict(read["worker"].backends[0].models) == {"qwen3:14b": "Qwen/Qwen3-14B-FP8"}


def test_redis_addresses() -> None:
    household = of_kind("household", "Secret")["redis"]["stringData"]
    assert household["url"] == f"redis://:{household['password']}@doublebuffer-redis:6379/0"
    assert re.fullmatch("[A-Za-z0-9]{32}", household["password"])
    assert of_kind("cluster", "Secret")["redis"]["stringData"]["url"].startswith("redis+sentinel://")
    assert "redis" not in of_kind("company", "Secret")
    assert of_kind("household", "ConfigMap")["redis"]["data"]["redis.conf"].strip() == (
        (DEPLOY / "redis" / "redis.conf").read_text().strip()
    )


def test_who_scales_what() -> None:
    for values in SETS:
        scaled = {
            target["spec"]["scaleTargetRef"]["name"].removeprefix("doublebuffer-")
            for kind in ("HorizontalPodAutoscaler", "ScaledObject")
            for target in of_kind(values, kind).values()
        }
        for name, deployment in of_kind(values, "Deployment").items():
            assert ("replicas" in deployment["spec"]) == (name not in scaled), "two would set the number"
    assert set(of_kind("cluster", "ScaledObject")) == {"worker"}
    for query in autoscaler_queries():
        assert set(re.findall(r"doublebuffer_\w+", query)) <= metric_names()


@pytest.mark.parametrize("values", SETS)
def test_selectors_find_pods(values: str) -> None:
    workloads = [*of_kind(values, "Deployment").values(), *of_kind(values, "StatefulSet").values()]
    labels = [workload["spec"]["template"]["metadata"]["labels"] for workload in workloads]
    selecting = [
        *(service["spec"]["selector"] for service in of_kind(values, "Service").values()),
        *(budget["spec"]["selector"]["matchLabels"] for budget in of_kind(values, "PodDisruptionBudget").values()),
        *(policy["spec"]["podSelector"]["matchLabels"] for policy in of_kind(values, "NetworkPolicy").values()),
    ]
    assert len(selecting) >= 6
    for selector in selecting:
        assert sum(selector.items() <= found.items() for found in labels) == 1
    services = [service["metadata"]["labels"] for service in of_kind(values, "Service").values()]
    for monitor in of_kind(values, "ServiceMonitor").values():
        assert sum(monitor["spec"]["selector"]["matchLabels"].items() <= found.items() for found in services) == 1


def test_the_networks_are_closed() -> None:
    household = of_kind("household", "NetworkPolicy")
    components = [
        peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
        for peer in household["redis"]["spec"]["ingress"][0]["from"]
    ]
    assert components == ["gateway", "worker", "batch-worker"]
    assert household["batch-worker"]["spec"]["ingress"] == household["worker"]["spec"]["ingress"]
    assert "egress" not in household["redis"]["spec"]
    assert (
        household["gateway"]["spec"]["egress"][1]["to"][0]["podSelector"]["matchLabels"]
        == (household["redis"]["spec"]["podSelector"]["matchLabels"])
    )
    company = of_kind("company", "NetworkPolicy")
    assert {"ipBlock": {"cidr": "10.20.0.0/24"}} in company["worker"]["spec"]["egress"][1]["to"]
    assert len(company["gateway"]["spec"]["ingress"][0]["from"]) == 3


def test_rules_and_dashboard_are_the_ones_that_are_tested() -> None:
    assert of_kind("company", "PrometheusRule")["doublebuffer"]["spec"] == yaml.safe_load(ALERTS.read_text())
    data = of_kind("company", "ConfigMap")["dashboard"]["data"]
    assert json.loads(data["doublebuffer.json"]) == json.loads(DASHBOARD.read_text())


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "Set one of redis.url, redis.urlSecret.name and redis.server.enabled"),
        ({"redis.url": "redis://r", "redis.server.enabled": "true"}, "Set one of redis.url"),
        ({"redis.url": "http://r"}, "/redis/url"),
        ({"redis.url": "redis://r"}, "Set settings.backends"),
        ({"redis.url": "redis://r", "settingsSecret": "s", "gateway.replicaz": "2"}, "replicaz"),
        ({"redis.url": "redis://r", "settingsSecret": "s", "settings.drain_seconds": "9"}, "drain_seconds"),
        ({"redis.url": "redis://r", "settingsSecret": "s", "gateway.ingress.enabled": "true"}, "gateway.ingress.host"),
        ({"redis.url": "redis+cluster://r", "settingsSecret": "s", "batchWorker.enabled": "true"}, "Redis Cluster"),
        ({"redis.url": "redis://r", "settingsSecret": "s", "tracing.endpoint": "collector:4318"}, "/tracing/endpoint"),
        ({"redis.url": "redis://r", "settingsSecret": "s", "tracing.headersSecret.name": "h"}, "Set tracing.endpoint"),
        ({"redis.url": "redis://r", "settingsSecret": "s", "worker.scaleTargets[0]": "a/b/c"}, "scaleTargets"),
    ],
)
def test_what_cannot_work_is_refused(values: dict[str, str], said: str) -> None:
    done = template(*(word for name, value in values.items() for word in ("--set", f"{name}={value}")))
    assert done.returncode != 0
    assert said in done.stderr


def test_keys_without_one_for_prometheus_are_refused() -> None:
    done = template("--values", str(CHART / "ci" / "company.yaml"), "--set", "metrics.serviceMonitor.keySecret.name=")
    assert "Set metrics.serviceMonitor.keySecret" in done.stderr
