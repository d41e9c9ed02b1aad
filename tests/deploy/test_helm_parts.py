"""What the Helm chart has besides: the right to scale engines, traces, offline batches and their files."""

from __future__ import annotations

from typing import Any

import pytest

from buffer.tracing import wanted
from tests.deploy.chart import of_kind, pods, rendered

pytestmark = pytest.mark.debian


def test_workers_may_scale_what_is_named_and_do_nothing_else() -> None:
    assert of_kind("household", "Role") == of_kind("household", "ServiceAccount") == {}
    for values, targets in (
        ("company", {"models": ["vllm-night"]}),
        ("cluster", {"llm": ["vllm-spare"], "models": ["vllm-night", "vllm-weekend"]}),
    ):
        (account,) = of_kind(values, "ServiceAccount").values()
        assert pods(values)["worker"]["serviceAccountName"] == account["metadata"]["name"] == "doublebuffer-worker"
        roles = [one for one in rendered(values) if one["kind"] == "Role"]
        rule = {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch"]}
        assert {role["metadata"]["namespace"]: role["rules"] for role in roles} == {
            namespace: [rule | {"resourceNames": names}] for namespace, names in targets.items()
        }
        bindings = [one for one in rendered(values) if one["kind"] == "RoleBinding"]
        assert [one["metadata"]["namespace"] for one in bindings] == list(targets)
        for binding in bindings:
            assert binding["roleRef"]["name"] in {role["metadata"]["name"] for role in roles}
            (subject,) = binding["subjects"]
            assert (subject["name"], subject["namespace"]) == ("doublebuffer-worker", "llm")
    egress = of_kind("company", "NetworkPolicy")["worker"]["spec"]["egress"]
    assert {"ports": [{"port": 443}, {"port": 6443}], "to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]} in egress


def environment(values: str, part: str) -> dict[str, Any]:
    (container,) = pods(values)[part]["containers"]
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


def test_traces_go_where_they_are_wanted() -> None:
    for part in ("gateway", "worker", "batch-worker"):
        assert not any(name.startswith("OTEL") for name in environment("household", part))
        assert wanted(environment("cluster", part)) == "OTEL_EXPORTER_OTLP_ENDPOINT"
        told = {name: value for name, value in environment("company", part).items() if name.startswith("OTEL")}
        assert told == {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector.observability.svc:4318",
            "OTEL_EXPORTER_OTLP_HEADERS": {"secretKeyRef": {"name": "doublebuffer-tracing", "key": "headers"}},
            "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": "0.1",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=production",
        }
        egress = of_kind("company", "NetworkPolicy")[part]["spec"]["egress"]
        (collector,) = [rule for rule in egress if rule.get("ports") == [{"port": 4318}]]
        assert "observability" in str(collector["to"])
    assert {"ports": [{"port": 443}]} in of_kind("cluster", "NetworkPolicy")["gateway"]["spec"]["egress"]


def test_gateways_and_batch_workers_have_one_volume() -> None:
    assert of_kind("household", "PersistentVolumeClaim") == of_kind("cluster", "PersistentVolumeClaim") == {}
    (own,) = of_kind("company", "PersistentVolumeClaim").values()
    assert own["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    for values, claim in (
        ("household", None),
        ("company", own["metadata"]["name"]),
        ("cluster", "doublebuffer-shared"),
    ):
        for part in ("gateway", "worker", "batch-worker"):
            pod, has_it = pods(values)[part], claim is not None and part != "worker"
            claims = [one["persistentVolumeClaim"] for one in pod["volumes"] if "persistentVolumeClaim" in one]
            assert claims == ([{"claimName": claim}] if has_it else [])
            mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
            assert environment(values, part).get("DOUBLEBUFFER_FILES") == mounts.get("files")
            assert ("files" in mounts) == has_it
