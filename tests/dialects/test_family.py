import pytest

from buffer.family import family

TABLE = [
    ("tiny-qwen3", "hybrid", "on", "enable_thinking", "<think>", False),
    ("qwen3:14b-fp8", "hybrid", "on", "enable_thinking", "<think>", False),
    ("Qwen/Qwen3-14B-FP8", "hybrid", "on", "enable_thinking", "<think>", False),
    ("hf.co/Qwen/Qwen3-8B-GGUF:Q4_K_M", "hybrid", "on", "enable_thinking", "<think>", False),
    ("Qwen/Qwen3-30B-A3B-Instruct-2507", "never", "off", "none", "", False),
    ("qwen3:4b-thinking-2507-q4_K_M", "always", "on", "none", "<think>", True),
    ("qwen3-coder:30b", "never", "off", "none", "", False),
    ("qwen3-embedding:0.6b", "never", "off", "none", "", False),
    ("Qwen/Qwen3.5-27B", "hybrid", "on", "enable_thinking", "<think>", True),
    ("qwen3.8:32b", "hybrid", "on", "enable_thinking", "<think>", True),
    ("qwen2.5:7b", "never", "off", "none", "", False),
    ("QwQ-32B", "always", "on", "none", "<think>", True),
    ("gpt-oss:20b", "always", "on", "effort", "", False),
    ("deepseek-r1:8b", "always", "on", "none", "<think>", True),
    ("DeepSeek-R1-Distill-Qwen-7B", "always", "on", "none", "<think>", True),
    ("deepseek-ai/DeepSeek-V3.1", "hybrid", "off", "thinking", "<think>", False),
    ("deepseek-v3:671b", "never", "off", "none", "", False),
    ("gemma4:27b", "hybrid", "off", "enable_thinking", "", False),
    ("gemma3:12b", "never", "off", "none", "", False),
    ("zai-org/GLM-4.5-Air", "hybrid", "on", "enable_thinking", "<think>", False),
    ("granite3.3:8b", "hybrid", "off", "thinking", "<think>", False),
    ("magistral:24b", "always", "on", "none", "[THINK]", False),
    ("mistral:7b", "never", "off", "none", "", False),
    ("llama3.2", "never", "off", "none", "", False),
    ("nvidia/Llama-3.3-Nemotron-Super-49B", "hybrid", "on", "enable_thinking", "<think>", False),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0])
def test_families(row):
    found = family(row[0])
    assert (found.thinks, found.default, found.switch, found.open_tag, found.prompt_opens) == row[1:]
    assert found.known
    assert bool(found.close_tag) == bool(found.open_tag)


@pytest.mark.parametrize("name", ["m-oai", "my-finetune", "", "😀" * 1000])
def test_a_name_that_says_nothing_may_think_and_is_marked(name):
    found = family(name)
    assert not found.known
    assert (found.thinks, found.switch, found.open_tag, found.close_tag) == (
        "hybrid",
        "enable_thinking",
        "<think>",
        "</think>",
    )


def test_effort_words():
    assert family("gpt-oss:120b").effort_words == {"low": "low", "medium": "medium", "high": "high", "max": "high"}
    assert family("qwen3.8").effort_words["max"] == "xhigh"
    assert family("deepseek-v4").effort_words["low"] == "high"
    assert not family("qwen3:8b").effort_words


@pytest.mark.parametrize(
    ("name", "think", "thinks", "inside"),
    [
        ("qwen3:8b", "unset", True, False),
        ("qwen3:8b", "off", False, False),
        ("qwen3.5:9b", "unset", True, True),
        ("qwen3.5:9b", "off", False, False),
        ("qwen3.5:9b", "low", True, True),
        ("gemma4", "unset", False, False),
        ("gemma4", "on", True, False),
        ("deepseek-r1", "off", True, True),
        ("llama3.2", "on", False, False),
    ],
)
def test_what_a_job_gets(name, think, thinks, inside):
    assert family(name).will_think(think) is thinks
    assert family(name).starts_inside(think) is inside
