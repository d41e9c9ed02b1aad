from __future__ import annotations

from collections.abc import AsyncGenerator

from backends.base import Probe
from buffer.backend import BackendSpec, Kind, ModelInfo
from buffer.job import Chat, Event
from buffer.memory import Memory
from worker.breaker import Breaker
from worker.engine import Engine


class Mute:
    """A back end that is never asked."""

    splits = False

    def __init__(self, spec: BackendSpec) -> None:
        self.spec = spec

    def chat(self, chat: Chat, *, upstream_model: str, request_id: str) -> AsyncGenerator[list[Event], None]:
        raise AssertionError

    async def probe(self) -> Probe:
        raise AssertionError

    async def aclose(self) -> None:
        return


class Clock:
    now_at = 100.0

    def __call__(self) -> float:
        return self.now_at


def engine(kind: Kind = "vllm", **spec: object) -> tuple[Engine, Clock]:
    clock = Clock()
    backend = Mute(BackendSpec(name="one", kind=kind, url="http://127.0.0.1:1", **spec))  # type: ignore[arg-type]
    return Engine(backend, breaker=Breaker(failures=1, cooldown_s=10.0), clock=clock), clock


def served(*names: str, **found: object) -> Probe:
    return Probe(models=[ModelInfo(id=name) for name in names], **found)  # type: ignore[arg-type]


def test_queues_are_all_names_a_gateway_may_submit_under() -> None:
    one, _ = engine(models={"Chat": "Qwen/Qwen3-14B-FP8"})
    one.looked(served("Qwen/Qwen3-14B-FP8", "other:7b"))
    assert set(one.queues()) == {
        "chat",
        "/chat",
        "qwen3-14b-fp8",
        "qwen/qwen3-14b-fp8",
        "other-7b",
        "/other-7b",
    }
    assert one.upstream("chat") == "Qwen/Qwen3-14B-FP8"
    assert one.upstream("other-7b") == "other:7b"
    assert one.upstream("gone") is None


def test_an_alias_stands_before_what_is_served_under_the_same_name() -> None:
    one, _ = engine(models={"small": "big"})
    one.looked(served("small", "big"))
    assert one.upstream("small") == "big"


def test_places_hang_on_the_look_the_breaker_and_what_runs() -> None:
    one, clock = engine(max_in_flight=3)
    assert one.places(3) == 0, "nobody has looked yet"
    one.looked(served("m"))
    one.started("a")
    assert one.places(3) == 2
    one.breaker.failed(clock.now_at)
    assert one.places(3) == 0
    assert one.recheck_s() == 10.0
    clock.now_at += 10
    assert one.places(3) == 1
    one.started("b")
    assert one.places(3) == 0
    one.breaker.succeeded()
    one.ended("b")
    assert one.places(3) == 2
    one.doubt.set()
    assert one.places(3) == 0
    one.looked(served("m"))
    assert one.places(3) == 2
    assert one.lost("gone") is True
    assert one.lost("gone") is False
    assert one.places(3) == 0
    assert [model.id for model in one.models] == ["m"], "its models are still known"


def test_only_what_changes_something_wakes_an_idle_drain() -> None:
    one, _ = engine()
    one.looked(served("m", waiting=0, running=0))
    assert one.wake.is_set()
    one.wake.clear()
    one.looked(served("m", waiting=0, running=1))
    assert not one.wake.is_set()
    one.looked(served("m", "n", waiting=0, running=1))
    assert one.wake.is_set()


def test_credit_from_the_look_or_from_the_operator() -> None:
    one, _ = engine("llamacpp")
    one.looked(served("m", slots=8, kv_tokens=10_000))
    got = one.limits()
    assert (got.slots, got.kv, got.long, got.reserved_slots, got.kv_reserve) == (8, 9700, 4, 1, 800)
    two, _ = engine("llamacpp", max_in_flight=2, kv_tokens=500)
    two.looked(served("m", slots=8, kv_tokens=10_000))
    assert (two.limits().slots, two.limits().kv) == (2, 485)


def test_overlap_wakes_the_drain_and_a_trial_is_not_told_to_others() -> None:
    one, _ = engine("ollama")
    one.looked(served("m"))
    assert one.limits().slots == 1
    one.started("a")
    one.wake.clear()
    one.flowed("a")
    assert one.wake.is_set()
    assert (one.limits().slots, one.told_limit) == (2, 1)
    one.adopt(3)
    assert one.told_limit == 3


def test_what_an_engine_that_swaps_models_has_in_memory() -> None:
    one, clock = engine("ollama", models={"mine": "a:7b"})
    one.looked(served("a:7b", "b:7b"))
    assert one.memory() == Memory([], 0)
    one.looked(served("a:7b", "b:7b", loaded=["a:7b"]))
    clock.now_at += 2
    assert one.memory() == Memory(["mine", "/mine", "a-7b", "/a-7b"], 2_000_000)
    one.looked(served("a:7b", "b:7b", loaded=["a:7b", "b:7b"]))
    clock.now_at += 1
    found = one.memory()
    assert found is not None
    assert set(found.queues) == set(one.queues())
    other, _ = engine("llamacpp")
    other.looked(served("a", "b", loaded=["a"]))
    assert other.memory() is None, "all of its models are there"


def test_pieces_are_as_large_as_the_engine_is_fast() -> None:
    one, _ = engine(kv_tokens=10_000)
    one.looked(served("m"))
    assert (one.limits().segment, one.limits().pause_us) == (0, 0)
    assert not one.heeds("normal")
    one.backend.splits = True  # type: ignore[misc]
    assert (one.limits().segment, one.limits().pause_us) == (512, 32_000)
    assert one.heeds("normal")
    assert not one.heeds("fast")
    for _ in range(8):
        one.learning.of("m").prefill(40_000, 2.0, alone=True)
    rate = one.learning.of("m").prefill_rate
    assert rate is not None
    assert rate > 15_000
    assert (one.limits().segment, one.limits().prefill) == (1024, 2048)
    assert one.limits().pause_us == round(0.25 * 1024 / rate * 1e6)
    for _ in range(100):
        one.learning.of("m").prefill(4_000, 40.0, alone=True)
    assert one.limits().segment == 256


def test_before_ollama_nobody_waits_for_prompts_to_be_read() -> None:
    one, _ = engine("ollama")
    one.looked(served("m"))
    assert one.limits().prefill == 0
