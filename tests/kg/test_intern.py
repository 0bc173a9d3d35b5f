from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.kg.intern import Interner

TEXTS = st.lists(st.text(max_size=4), max_size=40)


def _array(values):
    return pa.array(values, pa.large_string())


@settings(max_examples=60)
@given(st.lists(TEXTS, max_size=5))
def test_texts_are_numbered_in_the_order_in_which_they_are_met(batches):
    interner, known = Interner(), {}
    for batch in batches:
        expected = [known.setdefault(text, len(known)) for text in batch]
        assert interner.numbers(_array(batch)).tolist() == expected
    assert interner.texts().to_pylist() == list(known)
    assert len(interner) == len(known)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=30))
def test_pairs_are_met_alternately(pairs):
    interner, known = Interner(), {}
    expected = [known.setdefault(text, len(known)) for pair in pairs for text in pair]
    left, right = interner.pairs(*(_array([pair[side] for pair in pairs]) for side in (0, 1)))
    assert [code for row in zip(left.tolist(), right.tolist(), strict=True) for code in row] == expected


def test_the_table_grows_with_its_texts_and_slices_are_read_where_they_are():
    interner = Interner()
    values = [f"id {number}" for number in range(200_000)]
    assert interner.numbers(_array(["x", *values]).slice(1)).tolist() == list(range(200_000))
    assert interner.numbers(_array(values[::-1])).tolist() == list(range(199_999, -1, -1))
    assert interner.texts(199_999).to_pylist() == ["id 199999"]
