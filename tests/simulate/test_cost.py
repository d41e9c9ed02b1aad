import pytest

from simulate.cost import (
    ANCHOR_MEASURED,
    ANCHOR_MODEL,
    ANCHOR_OUTPUT,
    ANCHOR_PROMPT,
    H100_VLLM,
    PROFILES,
    RTX4090_OLLAMA,
    RTX4090_VLLM,
    anchor_profile,
    attention_of,
    closed_loop_tokens_per_s,
    prefill_s,
    profile_named,
    step_s,
)
from simulate.orders import make_engine
from tests.simulate.engines import closed_loop


def test_the_table() -> None:
    assert list(PROFILES) == ["rtx4090-ollama", "rtx4090-vllm", "h100-vllm"]
    assert RTX4090_VLLM.kv_capacity() == 39_000
    assert H100_VLLM.kv_capacity() == 334_000
    assert profile_named("rtx4090-ollama", slots=4, num_ctx=8_192).kv_capacity() == 32_768


def test_a_step_is_bound_by_the_weights_or_by_the_arithmetic() -> None:
    alone = step_s(RTX4090_VLLM, prefill=0, decoding=1, context=512, attention=0.0)
    assert alone == pytest.approx(17.3e-3 + 0.1e-3 + 512 * 0.22e-6)
    busy = step_s(RTX4090_VLLM, prefill=2_000, decoding=4, context=2_000, attention=attention_of(2_000, 1_000))
    assert busy == pytest.approx(2_004 / 6_500 + 4 * 0.1e-3 + 2_000 * 0.22e-6 + 2_000 * 2_000 * 6.5e-9)


@pytest.mark.parametrize("chunks", [[1_000], [400, 600], [1, 999], [250] * 4])
def test_attention_does_not_depend_on_the_chunks(chunks: list[int]) -> None:
    done, total = 0, 0.0
    for chunk in chunks:
        total += attention_of(chunk, done)
        done += chunk
    assert total == pytest.approx(1_000 * 1_000 / 2)


def test_what_the_hardware_can_do() -> None:
    """No stream passes the card's bandwidth; a short prompt takes about 80 ms, 85,000 tokens take 25 to 37 s."""
    assert closed_loop_tokens_per_s(RTX4090_VLLM, 1, prompt=64, output=256) < 67.6
    assert 0.075 < prefill_s(RTX4090_VLLM, 512) < 0.085
    assert 25 < prefill_s(RTX4090_VLLM, 85_000) < 37 < prefill_s(RTX4090_OLLAMA, 85_000) < 60


@pytest.mark.parametrize("clients", sorted(ANCHOR_MODEL))
def test_the_engine_meets_the_anchor(clients: int) -> None:
    rate = closed_loop(
        make_engine(anchor_profile()), clients, 20, prompt=ANCHOR_PROMPT, output=ANCHOR_OUTPUT, apart_s=0.1
    )
    assert rate == pytest.approx(ANCHOR_MODEL[clients], rel=0.03)
    assert rate == pytest.approx(ANCHOR_MEASURED[clients], rel=0.12)


@pytest.mark.parametrize("clients", sorted(ANCHOR_MODEL))
def test_the_closed_form_meets_the_anchor(clients: int) -> None:
    rate = closed_loop_tokens_per_s(anchor_profile(), clients, prompt=ANCHOR_PROMPT, output=ANCHOR_OUTPUT)
    assert rate == pytest.approx(ANCHOR_MODEL[clients], rel=0.06)


@pytest.mark.parametrize(
    ("name", "slots", "num_ctx"), [("rtx5090", None, None), ("rtx4090-vllm", 0, None), ("rtx4090-ollama", 1, 2)]
)
def test_bad_profiles(name: str, slots: int | None, num_ctx: int | None) -> None:
    with pytest.raises(ValueError):
        profile_named(name, slots=slots, num_ctx=num_ctx)
