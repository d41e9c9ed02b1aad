"""The compose file, as Docker Compose itself reads it, and what it promises."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from buffer.settings import Settings
from tests.deploy.files import COMPOSE, DEPLOY, ENVIRONMENT, ROOT, read_yaml

PROGRAM = Path(sys.executable).parent / "docker-compose"
CARDS = DEPLOY / "compose" / "gpu.yml"
VARIABLE = re.compile(r"\$\{([A-Z_]+):-([^}]*)\}")
OURS = {"gateway", "worker", "batch-worker", "simulated"}
ENGINES = {"ollama", "vllm", "llamacpp", "simulated"}


def compose(*arguments: str, files: Sequence[Path] = (COMPOSE,), env_file: str = "/dev/null") -> str:
    """What ``docker compose ARGUMENTS config`` says. Raises ``AssertionError`` with its complaint."""
    chosen = [word for file in files for word in ("--file", str(file))]
    command = [str(PROGRAM), "--env-file", env_file, "--project-directory", str(ROOT), *chosen, *arguments]
    done = subprocess.run(
        [*command, "config", "--format", "json"], capture_output=True, text=True, check=False, cwd=ROOT, env={}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def everything(env_file: str = "/dev/null") -> dict[str, Any]:
    """All profiles, with every variable filled in."""
    found: dict[str, Any] = json.loads(compose("--profile", "*", env_file=env_file))
    return found


def services() -> dict[str, Any]:
    found: dict[str, Any] = everything()["services"]
    return found


def example() -> dict[str, str]:
    """All of ``.env.example``, what is commented out as well."""
    return dict(re.findall(r"^#?([A-Z_]+)=(.*)$", ENVIRONMENT.read_text(), re.MULTILINE))


@pytest.mark.parametrize(
    ("profile", "more"),
    [
        ("sim", {"simulated"}),
        ("ollama", {"ollama"}),
        ("vllm", {"vllm"}),
        ("llamacpp", {"llamacpp"}),
        ("monitoring", {"prometheus", "grafana"}),
    ],
)
def test_a_profile_adds_what_it_is_named_for(profile: str, more: set[str]) -> None:
    always = {"redis", "gateway", "worker", "batch-worker", "open-webui"}
    assert set(json.loads(compose())["services"]) == always
    assert set(json.loads(compose("--profile", profile))["services"]) == always | more


def test_the_example_as_it_is_copied_starts_something_to_look_at() -> None:
    chosen = json.loads(compose(env_file=str(ENVIRONMENT)))["services"]
    assert {"simulated", "prometheus", "grafana"} <= set(chosen)
    assert not {"ollama", "vllm", "llamacpp"} & set(chosen)


def test_cards_are_for_ollama() -> None:
    found = json.loads(compose("--profile", "ollama", files=(COMPOSE, CARDS)))["services"]["ollama"]
    assert found["deploy"]["resources"]["reservations"]["devices"][0]["driver"] == "nvidia"
    assert "deploy" not in services()["ollama"]


def test_the_example_names_what_the_file_asks_for_with_the_defaults_it_has() -> None:
    defaults = dict(VARIABLE.findall(COMPOSE.read_text()))
    assert len(re.findall(r"\$\{?[A-Z_]+", COMPOSE.read_text())) == len(VARIABLE.findall(COMPOSE.read_text()))
    told = {name: value for name, value in example().items() if name not in {"COMPOSE_PROFILES", "COMPOSE_FILE"}}
    assert set(told) == set(defaults)
    differing = {"SETTINGS_FILE", "OPEN_WEBUI_KEY", "METRICS_KEY"}
    assert {name for name in told if told[name] != defaults[name]} == differing


def test_files_that_it_mounts_are_there() -> None:
    for service in services().values():
        for volume in service.get("volumes", []):
            assert volume["type"] in {"bind", "volume"}
            if volume["type"] == "bind":
                assert Path(volume["source"]).exists()
                assert volume["read_only"] is True
        if "build" in service:
            assert (Path(service["build"]["context"]) / service["build"]["dockerfile"]).is_file()


def test_gateways_and_batch_workers_have_one_folder_that_the_image_makes_theirs() -> None:
    dockerfile = (DEPLOY / "docker" / "Dockerfile").read_text()
    for name, service in services().items():
        folder = (service.get("environment") or {}).get("DOUBLEBUFFER_FILES")
        mounted = {volume["target"]: volume["source"] for volume in service.get("volumes", ())}
        assert (folder is not None) == (name in {"gateway", "batch-worker"}), name
        if folder is not None:
            assert mounted[folder] == "files"
            # A volume that is new takes over whose the folder in the image is.
            assert re.search(rf"install --directory --owner 10001 --group 10001 --mode 700 {folder}$", dockerfile, re.M)


def test_every_service_is_looked_after() -> None:
    for name, service in services().items():
        assert "healthcheck" in service or name in OURS, f"{name}: our image has one, others have not"
        assert not service.get("healthcheck", {}).get("disable", False)
        assert service["restart"] == "unless-stopped", name
        assert "container_name" not in service, f"{name} could not be scaled"
        assert re.search(r":v?\d+\.\d+|:server-b\d+$", service["image"]), f"{name} has no exact version"


def test_only_what_people_use_is_open_and_to_this_machine_alone() -> None:
    opened = {name: service["ports"] for name, service in services().items() if service.get("ports")}
    assert set(opened) == {"gateway", "open-webui", "grafana"}
    assert {port["host_ip"] for ports in opened.values() for port in ports} == {"127.0.0.1"}


def test_redis_and_the_engines_are_reached_by_nobody_else() -> None:
    networks = everything()["networks"]
    inside = {net: {name for name, service in services().items() if net in service["networks"]} for net in networks}
    assert inside["store"] == {"redis", "gateway", "worker", "batch-worker"}
    assert networks["store"]["internal"] is True
    assert inside["engines"] == ENGINES | {"worker"}
    assert set(services()["batch-worker"]["networks"]) == {"store", "metrics"}
    assert inside["clients"] == {"gateway", "open-webui"}


def test_ours_are_locked_up_and_have_time_to_drain() -> None:
    drain_s = Settings.model_fields["drain_seconds"].default
    for name in OURS:
        service = services()[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert int(service["stop_grace_period"].removesuffix("s")) >= drain_s + 10


def test_open_webui_names_its_tasks_and_its_users_and_has_its_key(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("OPEN_WEBUI_KEY=a-key\nMETRICS_KEY=another\n")
    found = everything(str(tmp_path / "env"))
    environment = found["services"]["open-webui"]["environment"]
    connection = json.loads(environment["OLLAMA_API_CONFIGS"])["0"]
    assert connection == {"enable": True, "key": "a-key", "headers": {"X-OpenWebUI-Task": "{{TASK}}"}}
    assert environment["OLLAMA_BASE_URL"] == environment["RAG_OLLAMA_BASE_URL"] == "http://gateway:11435"
    assert environment["ENABLE_FORWARD_USER_INFO_HEADERS"] == "true"
    assert environment["RAG_OLLAMA_API_KEY"] == "a-key"
    assert found["configs"]["metrics-key"]["content"] == "another"


def test_settings_name_the_engines_that_it_starts() -> None:
    text = (DEPLOY / "compose" / "doublebuffer.toml").read_text()
    hosts = set(re.findall(r'^url = "http://([^:]+):', text, re.MULTILINE))
    assert hosts == ENGINES | {"host.docker.internal"}


def test_prometheus_asks_the_services_at_their_ports() -> None:
    jobs = read_yaml(DEPLOY / "prometheus" / "prometheus.yml")["scrape_configs"]
    asked = {(found["names"][0], found["port"]) for job in jobs for found in job["dns_sd_configs"]}
    assert asked == {("gateway", 11435), ("worker", 11436), ("batch-worker", 11436)}
