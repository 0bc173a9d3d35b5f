"""Forms of texts: read from a small part of JSON Schema's patterns, and meaning there what they mean here."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.text.text_form import LONGEST, TextForm, read_form

PATTERNS = [
    "^(Which|What|How) [^?]*[?]$",
    "^In (which|what) .+\\?$",
    "^.*[.!]$",
    "^(.|\\n)*[.!?…]$",
    '^(?:A|B \\(c\\))[^\\n"\\\\\\-\\]]+$',
    "^¿.*\\?$",
    "^[^/\\^b]*$",
]
TEXTS = st.one_of(
    st.text('AB(c) Which?.!…\n"\\-/^]b¿', max_size=12),
    st.sampled_from(["Which ", "In which ", "A", "B (c)", "¿"]).flatmap(
        lambda begin: st.text('ab?.!\n"\\/', max_size=6).map(lambda rest: begin + rest)
    ),
)


@pytest.mark.parametrize("pattern", PATTERNS)
@given(text=TEXTS)
def test_a_form_holds_for_the_texts_that_its_pattern_matches(pattern: str, text: str) -> None:
    assert read_form(pattern).holds(text) == (re.fullmatch(pattern.rstrip("$"), text) is not None)


def test_a_form_says_how_it_begins_and_ends() -> None:
    assert read_form("^(Which|In which) [^?]+[?]$") == TextForm(("Which ", "In which "), "?", 1, "?")
    assert read_form("^(Which|In which) [^?]+[?]$").room == len("In which ") + 2


@pytest.mark.parametrize(
    "pattern",
    [
        "a+",
        ".*[?]",
        "^(.*)*$",
        "^(a|)b.*$",
        "^(Which|What)(ever)? .*$",
        "^[A-Z].*$",
        "^[^a-z]*$",
        "^\\w*$",
        "^.{3,9}$",
        '^Say "(a|b)".*$',
        "^.*[?]$\n",
        "^(a).*(b).*$",
        f"^{'a' * LONGEST}.*$",
        f"^{'(' * 200}.*$",
        "^.*[\\n]$",
    ],
)
def test_any_other_pattern_is_refused_in_one_line(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern") as caught:
        read_form(pattern)
    assert "\n" not in str(caught.value)
