"""Nesting of foreign JSON is bounded before it is parsed, whatever stands in its strings."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.text.bounded_json import DEEPEST, loads, too_deep
from tests.foreign.watchdog import watched

JSON = st.recursive(
    st.none() | st.booleans() | st.text(alphabet='[]{}\\"a', max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(alphabet='[{"\\', max_size=3), inner, max_size=3)
    ),
)


@given(JSON)
def test_what_is_not_deep_is_read_as_it_stands(value: object) -> None:
    text = json.dumps([value] * 70)
    assert loads(text) == loads(text.encode()) == [value] * 70


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"[":', "}]")])
def test_one_level_more_than_allowed_is_refused(opening: str, closing: str) -> None:
    levels = DEEPEST // (2 if len(opening) == 6 else 1)
    loads(opening * levels + "1" + closing * levels)
    with pytest.raises(orjson.JSONDecodeError, match="nested more than"):
        loads(opening * levels + "[1]" + closing * levels)


def test_brackets_in_strings_are_no_nesting() -> None:
    assert loads(json.dumps("[" * 1000)) == "[" * 1000
    assert loads(json.dumps({"a": '\\"{[' * 1000}))["a"].endswith("[")


@pytest.mark.parametrize("piece", ["[", "[]", '"', '\\"', '"\\', '{"a":"', '["\\"[",', "]", '"["'])
def test_megabytes_take_linear_time(piece: str) -> None:
    data = piece.encode() * ((4 << 20) // len(piece))
    with watched(piece):
        too_deep(data)
        too_deep(b'"' + data)
