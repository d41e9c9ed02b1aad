import json
from datetime import datetime

import pytest
from ollama._types import ListResponse, ProcessResponse, ShowResponse
from openai.types import Model

from buffer.backend import ModelInfo
from gateway.dialects import ollama, openai
from gateway.dialects.listing import Listed

QWEN = Listed("qwen3:14b-fp8", ModelInfo("Qwen/Qwen3-14B-FP8", context_length=32768))
TOLD = Listed(
    "ns/m-oll",
    ModelInfo(
        "ns/m-oll:latest",
        context_length=4096,
        size=123,
        family="llama",
        parameter_size="8.0B",
        quantization="Q4_K_M",
        format="gguf",
        digest="sha256:" + "ab" * 32,
        modified_at="2027-01-02T03:04:05.123456789+01:00",
        capabilities=["completion", "vision"],
        embedding_length=99,
    ),
)
SINCE = 1_796_000_000.0


def test_tags():
    found = json.loads(ollama.tags([QWEN, TOLD], created=SINCE))
    ListResponse.model_validate(found)
    newest, other = found["models"]
    assert newest["name"] == newest["model"] == "ns/m-oll:latest"
    assert (newest["digest"], newest["size"], newest["capabilities"]) == ("ab" * 32, 123, ["completion", "vision"])
    assert newest["details"]["quantization_level"] == "Q4_K_M"
    assert other["name"] == "qwen3:14b-fp8"
    assert (other["size"], other["modified_at"]) == (0, "2026-11-30T00:53:20.000000Z")
    assert other["details"] == {
        "parent_model": "",
        "format": "safetensors",
        "family": "qwen3",
        "families": ["qwen3"],
        "parameter_size": "14.8B",
        "quantization_level": "FP8",
        "context_length": 32768,
    }
    assert other["capabilities"] == ["completion", "tools", "thinking"]
    assert len(other["digest"]) == 64
    assert other["digest"] == json.loads(ollama.tags([QWEN], created=1.0))["models"][0]["digest"]


def test_no_models_are_an_empty_list():
    assert json.loads(ollama.tags([], created=SINCE)) == {"models": []}
    assert json.loads(ollama.ps([])) == {"models": []}
    assert json.loads(openai.models([], created=SINCE)) == {"object": "list", "data": []}


def test_ps():
    found = json.loads(ollama.ps([(QWEN, SINCE), (TOLD, None)]))
    ProcessResponse.model_validate(found)
    assert [model["name"] for model in found["models"]] == ["ns/m-oll:latest", "qwen3:14b-fp8"]
    assert all(datetime.fromisoformat(model["expires_at"]).year <= 9000 for model in found["models"])
    assert found["models"][0]["size_vram"] == 123
    assert found["models"][1]["context_length"] == 32768


def test_show():
    found = json.loads(ollama.show(QWEN, created=SINCE))
    ShowResponse.model_validate(found)
    architecture = found["model_info"]["general.architecture"]
    assert architecture == "qwen3"
    assert found["model_info"][f"{architecture}.context_length"] == 32768
    assert found["capabilities"] == ["completion", "tools", "thinking"]
    assert found["parameters"] == f"{'num_ctx':30} 32768"


def test_show_of_a_model_that_nobody_describes():
    found = json.loads(ollama.show(Listed("m-oai", ModelInfo("org/m-oai")), created=SINCE))
    ShowResponse.model_validate(found)
    assert found["model_info"]["general.architecture"]
    assert found["capabilities"] == ["completion", "tools"]


def test_openai_models():
    found = json.loads(openai.models([QWEN, TOLD], created=SINCE))
    assert [Model.model_validate(model).id for model in found["data"]] == ["qwen3:14b-fp8", "ns/m-oll"]
    assert found["data"][0] == {
        "id": "qwen3:14b-fp8",
        "object": "model",
        "created": int(SINCE),
        "owned_by": "library",
        "max_model_len": 32768,
    }
    assert json.loads(openai.model(QWEN, created=SINCE)) == found["data"][0]


@pytest.mark.parametrize(
    ("info", "size", "quantization", "form", "family"),
    [
        (ModelInfo("qwen3:8b-q4_K_M"), "8.2B", "Q4_K_M", "gguf", "qwen3"),
        (ModelInfo("Qwen/Qwen3-30B-A3B-AWQ"), "30.5B", "AWQ", "safetensors", "qwen3"),
        (ModelInfo("meta-llama/Llama-3.1-8B-Instruct"), "8B", "", "", "llama3"),
        (ModelInfo("tiny-qwen3", parameter_count=394_000), "394.00K", "", "", "qwen3"),
        (ModelInfo("x", parameter_count=14_768_000_000), "14.8B", "", "", "x"),
        (ModelInfo("gpt-oss:20b", architecture="gptoss"), "20B", "", "", "gptoss"),
        (ModelInfo(""), "", "", "", "unknown"),
    ],
)
def test_details_by_name(info, size, quantization, form, family):
    (found,) = json.loads(ollama.tags([Listed(info.id, info)], created=SINCE))["models"]
    details = found["details"]
    assert (details["parameter_size"], details["quantization_level"], details["format"], details["family"]) == (
        size,
        quantization,
        form,
        family,
    )
