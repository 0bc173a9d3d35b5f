"""Normal forms are Unicode's own for every text that people write, and cost linear time for any other."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.text.plain_text import normalized
from tests.foreign.watchdog import watched


@given(st.text(), st.sampled_from(["NFC", "NFKC"]))
def test_a_text_is_normalised_as_unicode_says(text: str, form: str) -> None:
    assert normalized(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize(
    "text", ["症候群" * 40, "ต้นฉบับ" * 40, "e\u0301\u0316" * 40, "\u1100\u1161\u11a8" * 40]
)
def test_writings_of_many_marks_are_too(text: str) -> None:
    assert normalized("NFC", text) == unicodedata.normalize("NFC", text)


def test_a_million_accents_on_one_letter_take_linear_time() -> None:
    with watched():
        assert len(normalized("NFKC", "a" + "\u0301\u0316" * 500_000)) == 1_000_000
