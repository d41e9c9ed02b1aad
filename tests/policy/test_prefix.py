from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policy.prefix import PrefixIndex, chain


def test_an_earlier_turn_is_known() -> None:
    index = PrefixIndex()
    system, question, answer, more = b"s" * 4000, b"q" * 40, b"a" * 400, b"m" * 40
    first = chain(b"model", [system, question])
    assert index.known(first) == 0
    index.add(first)
    assert index.known(first) == first[-1].tokens
    second = chain(b"model", [system, question, answer, more])
    assert index.known(second) == first[-1].tokens
    index.add(chain(b"model", [answer], after=first))
    assert index.known(second) == second[-1].tokens - (len(more) // 4 + 5)


def test_only_the_shared_beginning_counts() -> None:
    index = PrefixIndex()
    tools = b"t" * 8000
    index.add(chain(b"m", [tools, b"one"]))
    assert index.known(chain(b"m", [tools, b"two"])) == chain(b"m", [tools])[-1].tokens
    assert index.known(chain(b"m", [b"one", tools])) == 0
    assert index.known(chain(b"other", [tools, b"one"])) == 0
    assert index.known(chain(b"m", [b"t" * 8001])) == chain(b"m", [b"t" * 6144])[-1].tokens


def test_parts_are_not_joined() -> None:
    assert chain(b"m", [b"ab", b"c"])[-1].digest != chain(b"m", [b"a", b"bc"])[-1].digest
    assert chain(b"m", [b"x" * 4096])[-1].digest != chain(b"m", [b"x" * 2048, b"x" * 2048])[-1].digest


def test_the_oldest_is_forgotten_and_ends_before_beginnings() -> None:
    index = PrefixIndex(most_links=3)
    old = chain(b"m", [b"1", b"2", b"3"])
    index.add(old)
    index.add(chain(b"m", [b"9"]))
    assert len(index) == 3
    assert index.known(old) == old[1].tokens
    tokens = PrefixIndex(most_tokens=20)
    tokens.add(chain(b"m", [b"a" * 60]))
    tokens.add(chain(b"m", [b"b"]))
    assert tokens.known(chain(b"m", [b"b"])) > 0
    assert tokens.known(chain(b"m", [b"a" * 60])) == 0


def test_what_one_back_end_has_read_is_new_to_another() -> None:
    index = PrefixIndex()
    system, first, second = b"s" * 4000, b"f" * 400, b"g" * 400
    index.add(chain(b"m", [system, first]), "one")
    index.add(chain(b"m", [system, second]), "two")
    shared = chain(b"m", [system])[-1].tokens
    again = chain(b"m", [system, first, b"more"])
    assert index.held(again) == {"one": again[-2].tokens, "two": shared}
    assert index.known(again) == again[-2].tokens
    assert index.held(chain(b"m", [first])) == {}


@given(st.lists(st.binary(max_size=5000), min_size=1, max_size=6), st.data())
def test_a_prompt_knows_exactly_what_it_shares(parts: list[bytes], data: st.DataObject) -> None:
    keep = data.draw(st.integers(0, len(parts)))
    index = PrefixIndex()
    index.add(chain(b"m", parts[:keep]))
    whole = chain(b"m", parts)
    shared = chain(b"m", parts[:keep])
    assert index.known(whole) == (shared[-1].tokens if shared else 0)
    assert chain(b"m", parts[keep:], after=shared) == whole
    assert [link.tokens for link in whole] == sorted(link.tokens for link in whole)
