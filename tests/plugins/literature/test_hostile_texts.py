"""Texts of any length take linear time to read."""

from __future__ import annotations

from kgqa_hpc.plugins.literature.documents.quotes import QuotableText
from kgqa_hpc.plugins.literature.documents.taxa import organism_key
from tests.foreign.test_hostile_names import LONGEST, PIECES
from tests.foreign.watchdog import watched


def test_an_organism_of_any_length_takes_linear_time() -> None:
    for piece in PIECES:
        name = piece * (LONGEST // len(piece))
        with watched(repr(piece)):
            organism_key(name)


def test_a_letter_with_a_hundred_thousand_accents_is_quoted_in_linear_time() -> None:
    with watched():
        QuotableText("a" + "\u0301\u0316" * 50_000)
