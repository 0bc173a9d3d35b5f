"""canonical: whatever a model said can be written, and reads back as the same every time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.store import canonical

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(st.characters()) | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(deadline=None)
@given(JSON)
def test_json_comes_back_as_it_was(value: Any) -> None:
    for render in (canonical.dumps, canonical.canonical, canonical.pretty):
        assert canonical.loads(render(value)) == _finite(value)


@settings(deadline=None)
@given(ANYTHING)
def test_anything_can_be_written_and_is_stable_from_then_on(value: Any) -> None:
    once = canonical.dumps(value)
    assert canonical.dumps(canonical.loads(once)) == once
    assert b"\n" not in once


def test_keys_keep_their_order_unless_canonical() -> None:
    assert canonical.dumps({"b": 1, "a": 2}) == b'{"b":1,"a":2}'
    assert canonical.canonical({"b": 1, "a": 2}) == b'{"a":2,"b":1}'
    assert canonical.digest({"b": 1, "a": 2}) == canonical.digest({"a": 2, "b": 1})


def test_what_json_cannot_hold_becomes_the_nearest_it_can() -> None:
    value = {1: "a\ud800b", "big": 2**70, "tuple": (1, 2), "nan": float("nan")}
    assert canonical.loads(canonical.dumps(value)) == {
        "1": "a?b",
        "big": str(2**70),
        "tuple": [1, 2],
        "nan": None,
    }


def test_ten_thousand_brackets_become_text_instead_of_a_crash() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    text = canonical.dumps({"answer": deep, "rest": 1})
    assert b"(nested too deeply)" in text
    assert canonical.loads(text)["rest"] == 1


def test_an_object_that_is_no_json_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="set is not a JSON type"):
        canonical.dumps({"a": {1, 2}})


def _finite(value: Any) -> Any:
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return None
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return value
