"""The compose file: read by a strict parser of the Compose specification, and held to what it promises."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from compose_spec import PyOptions

from buffer.settings import Settings
from tests.deploy.files import COMPOSE, DEPLOY, ENVIRONMENT, ROOT

VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_]+)(?::-(?P<default>[^}]*))?\}")
OURS = {"gateway", "worker", "simulated"}
ENGINES = {"ollama", "vllm", "llamacpp", "simulated"}


def filled_in(text: str, environment: dict[str, str]) -> str:
    """As Compose fills in variables. Raises ``AssertionError`` for a form that this does not know."""

    def value(found: re.Match[str]) -> str:
        return environment.get(found["name"]) or found["default"] or ""

    filled = VARIABLE.sub(value, text)
    assert "${" not in filled
    return filled


def example() -> dict[str, str]:
    """All of ``.env.example``, what is commented out as well."""
    lines = re.findall(r"^#?([A-Z_]+)=(.*)$", ENVIRONMENT.read_text(), re.MULTILINE)
    return dict(lines)


def services(environment: dict[str, str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(filled_in(COMPOSE.read_text(), environment or {}))["services"]
    return found


@pytest.mark.parametrize("environment", [{}, example()], ids=["unset", "as in the example"])
def test_a_strict_parser_takes_it(environment: dict[str, str]) -> None:
    # Docker's word for the machine's own address, which this parser does not know.
    text = filled_in(COMPOSE.read_text(), environment).replace("host-gateway", "172.17.0.1")
    parsed = PyOptions(apply_merge=True).from_yaml(text)
    assert (
        set(parsed.service_names()) >= {"redis", "gateway", "worker", "open-webui", "prometheus", "grafana"} | ENGINES
    )


def test_a_strict_parser_takes_the_cards() -> None:
    more = (DEPLOY / "compose" / "gpu.yml").read_text()
    assert set(PyOptions().from_yaml(more).service_names()) <= set(services())


def test_the_strict_parser_is_strict() -> None:
    with pytest.raises(ValueError, match="imagee"):
        PyOptions().from_yaml("services: {redis: {image: redis, imagee: redis}}")


def test_the_example_names_what_the_file_asks_for_and_nothing_else() -> None:
    asked = {found["name"] for found in VARIABLE.finditer(COMPOSE.read_text())}
    assert set(example()) - {"COMPOSE_PROFILES", "COMPOSE_FILE"} == asked


def test_defaults_are_those_of_the_example() -> None:
    defaults = {found["name"]: found["default"] for found in VARIABLE.finditer(COMPOSE.read_text())}
    differing = {"SETTINGS_FILE", "OPEN_WEBUI_KEY", "METRICS_KEY"}
    assert {name: value for name, value in example().items() if name in defaults and name not in differing} == {
        name: value for name, value in defaults.items() if name not in differing
    }


def test_whatever_it_names_is_there() -> None:
    text = yaml.safe_load(filled_in(COMPOSE.read_text(), {}))
    for name, service in text["services"].items():
        assert set(service.get("networks", [])) <= set(text["networks"]), name
        assert set(service.get("depends_on", {})) <= set(text["services"]), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith("./") else source in text["volumes"], volume
        if "build" in service:
            assert (ROOT / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def test_every_service_is_looked_after() -> None:
    image_has_one = OURS
    for name, service in services().items():
        assert "healthcheck" in service or name in image_has_one, name
        assert service["restart"] == "unless-stopped", name
        assert "container_name" not in service, f"{name} could not be scaled"
        assert re.search(r":v?\d+\.\d+|:server-b\d+$", service["image"]), f"{name} has no exact version"


def test_only_what_people_use_is_open_and_to_this_machine_alone() -> None:
    ports = {name: service["ports"] for name, service in services().items() if "ports" in service}
    assert set(ports) == {"gateway", "open-webui", "grafana"}
    assert all(port.startswith("127.0.0.1:") for opened in ports.values() for port in opened)


def test_redis_and_the_engines_are_reached_by_nobody_else() -> None:
    text = yaml.safe_load(filled_in(COMPOSE.read_text(), {}))
    inside = {net: {n for n, s in text["services"].items() if net in s["networks"]} for net in text["networks"]}
    assert inside["store"] == {"redis", "gateway", "worker"}
    assert text["networks"]["store"]["internal"] is True
    assert inside["engines"] == ENGINES | {"worker"}
    assert inside["clients"] == {"gateway", "open-webui"}


def test_ours_are_locked_up_and_have_time_to_drain() -> None:
    drain_s = Settings.model_fields["drain_seconds"].default
    for name in OURS:
        service = services()[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert int(service["stop_grace_period"].removesuffix("s")) >= drain_s + 10


def test_profiles_are_those_of_the_engines() -> None:
    profiles = {name: service.get("profiles") for name, service in services().items()}
    assert profiles["gateway"] is profiles["worker"] is profiles["redis"] is profiles["open-webui"] is None
    assert profiles["ollama"] == ["ollama"]
    assert profiles["vllm"] == ["vllm"]
    assert profiles["llamacpp"] == ["llamacpp"]
    assert profiles["simulated"] == ["sim"]
    assert profiles["prometheus"] == profiles["grafana"] == ["monitoring"]


def test_open_webui_names_its_tasks_and_its_users() -> None:
    environment = services({"OPEN_WEBUI_KEY": "a-key"})["open-webui"]["environment"]
    connection = json.loads(environment["OLLAMA_API_CONFIGS"])["0"]
    assert connection == {"enable": True, "key": "a-key", "headers": {"X-OpenWebUI-Task": "{{TASK}}"}}
    assert environment["OLLAMA_BASE_URL"] == environment["RAG_OLLAMA_BASE_URL"] == "http://gateway:11435"
    assert environment["ENABLE_FORWARD_USER_INFO_HEADERS"] == "true"
    assert environment["RAG_OLLAMA_API_KEY"] == "a-key"


def test_settings_name_engines_that_the_file_starts() -> None:
    text = (DEPLOY / "compose" / "doublebuffer.toml").read_text()
    hosts = set(re.findall(r'^url = "http://([^:]+):', text, re.MULTILINE))
    assert hosts == ENGINES | {"host.docker.internal"}


def test_prometheus_asks_the_services_at_their_ports() -> None:
    jobs = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    asked = {(found["names"][0], found["port"]) for job in jobs for found in job["dns_sd_configs"]}
    assert asked == {("gateway", 11435), ("worker", 11436)}
