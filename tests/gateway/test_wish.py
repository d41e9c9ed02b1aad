"""Every way to ask a model to think, and which of them decides; from the wire to the job, and on to the engine."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from buffer.job import Finish, Message, Think
from buffer.setting_values import parse_models
from gateway.dialects.soft_switch import soft_switch
from tests.gateway.rig import MODEL, PLAIN, rig
from tests.gateway.test_end_to_end import MODELS, house

ENDS = {"-nothink": "off", "-thinking": "on", "-hard": "high"}
RECORDS = parse_models([{"name": "qwen3*", "aliases": ENDS, "think": "low"}])


async def asked(path: str, body: dict[str, Any], **settings: Any) -> tuple[Think, str]:
    """What the job asks that a body becomes, and its lane."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 9} | body
    async with rig(**settings) as r, asyncio.TaskGroup() as group:
        sent = group.create_task(r.client.post(path, json=body))
        job = await r.hands.take()
        chat = await r.hands.chat(job)
        r.hands.say(job, "hi", Finish("stop"))
        await r.hands.end(job)
        got = await sent
        assert got.status_code == 200
        assert chat.model == body["model"]
        return chat.think, job.lane


SAYS_NO: dict[str, dict[str, Any]] = {
    "/api/chat": {"think": False},
    "/v1/chat/completions": {"chat_template_kwargs": {"enable_thinking": False}},
    "/v1/responses": {"reasoning": {"effort": "none"}, "input": "x"},
    "/v1/messages": {"thinking": {"type": "disabled"}},
}


@pytest.mark.parametrize("path", SAYS_NO)
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, "low"),
        ({"model": f"{MODEL}-thinking"}, "on"),
        ({"model": f"{MODEL}-thinking", "mode": "non-thinking"}, "off"),
        ({"model": f"{MODEL}-thinking", "mode": "auto"}, "on"),
        ({"model": f"{MODEL.upper()}-Hard"}, "high"),
    ],
)
async def test_request_then_name_then_operator(path: str, body: dict[str, Any], expected: Think) -> None:
    needed = {"input": "x"} if path == "/v1/responses" else {}
    assert (await asked(path, needed | body, models=RECORDS))[0] == expected


@pytest.mark.parametrize("path", SAYS_NO)
async def test_the_dialects_own_word_goes_before_all(path: str) -> None:
    body = SAYS_NO[path] | {"model": f"{MODEL}-thinking", "mode": "thinking"}
    assert await asked(path, body, models=RECORDS) == ("off", "fast")


async def test_without_a_word_nothing_is_made_up() -> None:
    assert (await asked("/api/chat", {}))[0] == "unset"
    assert (await asked("/api/chat", {"model": PLAIN}, models=parse_models([{"name": "*", "think": "on"}])))[
        0
    ] == "unset"


async def test_who_is_asked_to_think_waits_in_the_lane_for_it() -> None:
    assert await asked("/api/chat", {"model": f"{MODEL}-thinking"}, models=RECORDS) == ("on", "thinking")
    assert await asked("/api/chat", {"model": f"{MODEL}-nothink"}, models=RECORDS) == ("off", "fast")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["/no_think"], "off"),
        (["What? /think"], "on"),
        (["/think and then /no_think"], "off"),
        (["x /no_think", "y"], "off"),
        (["x /no_think", "y /think"], "on"),
        (["(/no_think)."], "off"),
        (["see /think/tank or a/think or src/no_think.py/"], "unset"),
        (["https://x.example/think"], "unset"),
        (["/thinker", "/no_thinking"], "unset"),
        (["```\n/no_think\n```"], "unset"),
        (["```sh\n/no_think\n"], "unset"),
        (["~~~\n/think\n~~~\n/no_think"], "off"),
        (["say `/think` to it"], "unset"),
        ([""], "unset"),
    ],
)
def test_soft_switches(texts: list[str], expected: Think) -> None:
    said = [Message("system", "Be brief."), *(Message("user", text) for text in texts), Message("assistant", "/think")]
    assert soft_switch(said) == expected


def test_a_soft_switch_of_the_system() -> None:
    assert soft_switch([Message("system", "/no_think"), Message("user", "x")]) == "off"


@pytest.mark.parametrize(
    ("settings", "model", "expected"),
    [
        ({}, MODEL, "low"),
        ({"soft_switches": True}, MODEL, "off"),
        ({"soft_switches": True}, f"{MODEL}-thinking", "on"),
        ({"soft_switches": True}, PLAIN, "unset"),
    ],
)
async def test_soft_switches_count_where_they_are_to(settings: Any, model: str, expected: Think) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello /no_think"}]}
    assert (await asked("/api/chat", body, models=RECORDS, **settings))[0] == expected


async def test_names_that_ask_are_names_everywhere_and_listed_if_wanted() -> None:
    for shown in (False, True):
        records = parse_models([{"name": "qwen3*", "aliases": ENDS, "list_aliases": shown}])
        names = [MODEL, *(MODEL + end for end in ENDS)] if shown else [MODEL]
        async with rig(models=records) as r:
            tags = (await r.client.get("/api/tags")).json()["models"]
            assert {entry["name"] for entry in tags} == {*names, PLAIN}
            ids = [entry["id"] for entry in (await r.client.get("/v1/models")).json()["data"]]
            assert set(ids) == {*names, PLAIN}
            for name in (f"{MODEL}-nothink", f"{MODEL}-nothink:latest"):
                assert (await r.client.post("/api/show", json={"model": name})).status_code == 200
                assert (await r.client.get(f"/v1/models/{name}")).json()["id"]
            for name in (f"{PLAIN}-nothink", f"{MODEL}-other", "nobody-nothink"):
                assert (await r.client.post("/api/show", json={"model": name})).status_code == 404


async def test_a_model_that_is_served_goes_before_another_with_an_end() -> None:
    records = parse_models([{"name": "*", "aliases": {":0.6b": "off"}}])
    assert (await asked("/api/chat", {}, models=records))[0] == "unset"


async def test_what_the_operator_says_of_a_models_thinking_is_told_and_kept() -> None:
    records = parse_models([{"name": "qwen3*", "thinks": "never"}, {"name": "llama*", "thinks": "hybrid"}])
    async with rig(models=records) as r:
        tags = {entry["name"]: entry for entry in (await r.client.get("/api/tags")).json()["models"]}
        assert tags[MODEL]["capabilities"] == ["completion", "tools"]
        assert tags[PLAIN]["capabilities"] == ["completion", "thinking"]
        got = await r.client.post("/api/chat", json={"model": MODEL, "messages": [{"role": "user"}], "think": True})
        assert (got.status_code, got.json()) == (400, {"error": f'"{MODEL}" does not support thinking'})


@pytest.mark.parametrize(
    ("mode", "options", "wanted"),
    [
        ("thinking", {"temperature": 0.6}, (True, 0.6, 0.95, 20, 0)),
        ("non-thinking", {}, (False, 0.7, 0.8, 20, 0)),
        ("non-thinking", {"temperature": 0.1, "top_k": 5}, (False, 0.1, 0.8, 5, 0)),
    ],
)
async def test_a_mode_among_ollamas_options_on_its_way_to_vllm(mode: str, options: Any, wanted: Any) -> None:
    body = {
        "model": "qwen3-8b",
        "options": {"mode": mode, **options},
        "messages": [{"role": "user", "content": "x"}],
        "stream": False,
    }
    async with house("vllm") as h, httpx.AsyncClient(base_url=h.url, timeout=20) as client:
        got = (await client.post("/api/chat", json=body)).json()
        assert bool(got["message"].get("thinking")) is wanted[0]
        sent = h.engines["vllm"].requests[-1].json()
        assert sent["model"] == MODELS["vllm"]
        assert "mode" not in sent
        assert "options" not in sent
        found = (
            sent["chat_template_kwargs"]["enable_thinking"],
            *(sent[k] for k in ("temperature", "top_p", "top_k", "min_p")),
        )
        assert found == wanted


async def test_records_reach_the_worker() -> None:
    records = parse_models([{"name": "Qwen/*", "switch": "thinking", "aliases": {"-quiet": "off"}, "sampling": {}}])
    async with house("vllm", models=records) as h, httpx.AsyncClient(base_url=h.url, timeout=20) as client:
        body = {"model": f"{MODELS['vllm']}-quiet", "messages": [{"role": "user", "content": "x"}]}
        got = (await client.post("/v1/chat/completions", json=body)).json()
        assert got["model"] == body["model"]
        sent = h.engines["vllm"].requests[-1].json()
        assert sent["model"] == MODELS["vllm"]
        assert sent["chat_template_kwargs"] == {"thinking": False, "enable_thinking": False}
        assert "temperature" not in sent
