"""How well pairs are supported: the published statistics from records."""

from __future__ import annotations

from typing import Any

import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.cli import grounding_counts

# Pairs with 0, 1, … 10 relevant documents of ten (BioGraphletQA, Figure 7).
PUBLISHED = (2734, 3539, 4095, 4411, 4553, 4460, 4383, 4342, 4511, 5018, 7954)


def record(relevant: int | None, kept: int = 2, dropped: int = 1) -> dict[str, Any]:
    return {"relevant_documents": relevant, "quotes_kept": kept, "quotes_dropped": dropped}


def test_the_published_counts_give_the_published_mean_and_share() -> None:
    found = grounding_counts(
        (record(n) for n, pairs in enumerate(PUBLISHED) for _ in range(pairs)), "the test"
    )
    assert found["pairs"] == 50_000
    assert list(found["relevant_documents"].values()) == list(PUBLISHED)
    assert round(found["mean"], 2) == 5.66
    assert round(1 - found["share_without"], 3) == 0.945
    assert found["quotes"] == {"kept": 100_000, "dropped": 50_000}


def test_a_number_that_no_pair_has_is_shown_as_none() -> None:
    found = grounding_counts([record(3), record(0)], "the test")
    assert found["relevant_documents"] == {"0": 1, "1": 0, "2": 0, "3": 1}


def test_records_that_were_not_grounded_are_passed_over_and_none_at_all_is_told() -> None:
    assert grounding_counts([record(None), record(1), {}], "the test")["pairs"] == 1
    with pytest.raises(InputError, match="no record has relevant_documents"):
        grounding_counts([{}], "the test")
