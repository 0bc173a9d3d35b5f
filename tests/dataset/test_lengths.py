"""The length filter is exact and depends on no order."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.dataset.lengths import LengthLimits, LengthSum, length_limits
from kgqa_hpc.dataset.record import pair_of

LENGTHS = st.lists(st.integers(0, 5_000), min_size=1, max_size=200)


def _sum(lengths: list[int]) -> LengthSum:
    return LengthSum(len(lengths), sum(lengths), sum(length * length for length in lengths))


@given(LENGTHS)
def test_mean_and_population_deviation_are_those_of_numpy(lengths: list[int]) -> None:
    sums = _sum(lengths)
    assert sums.mean == pytest.approx(np.mean(lengths), rel=1e-12)
    assert sums.deviation == pytest.approx(np.std(lengths), rel=1e-9, abs=1e-6)


@given(LENGTHS, st.fractions(Fraction(1, 100), 6), st.integers(0, 6_000))
def test_a_length_is_within_bounds_exactly_when_its_z_score_is(
    lengths: list[int], z: Fraction, x: int
) -> None:
    z = Fraction(float(z))
    n = len(lengths)
    variance = Fraction(sum(v * v for v in lengths), n) - Fraction(sum(lengths), n) ** 2
    within = (x - Fraction(sum(lengths), n)) ** 2 <= z * z * variance
    bounds = _sum(lengths).bounds(float(z))
    assert bounds is not None
    assert (bounds[0] <= x <= bounds[1]) == within


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=50), st.randoms())
def test_bounds_depend_on_no_order(lengths: list[int], random: object) -> None:
    shuffled = list(lengths)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert _sum(shuffled).bounds(3.0) == _sum(lengths).bounds(3.0)


def test_equal_lengths_are_no_outliers() -> None:
    assert _sum([80] * 1000).bounds(3.0) == (80, 80)


def test_without_any_pair_nothing_is_bounded() -> None:
    limits = LengthLimits({"question": _sum([]), "answer": _sum([])}, 3.0)
    assert limits.bounds == {"question": None, "answer": None}
    assert limits.to_dict()["pairs"] == 0


def test_each_field_has_its_own_bounds() -> None:
    questions, answers = [100 + i % 3 for i in range(200)], [300 + i % 5 for i in range(200)]
    limits = LengthLimits({"question": _sum(questions), "answer": _sum(answers)}, 3.0)
    assert limits.bounds == {"question": (99, 103), "answer": (298, 306)}
    described = limits.to_dict()
    assert described["standard_deviation"] == "population"
    assert (described["question"]["minimum"], described["question"]["maximum"]) == (99, 103)


def test_without_a_z_score_everything_is_kept() -> None:
    assert LengthLimits({"question": _sum([1]), "answer": _sum([1])}, None).bounds["question"] is None


def test_the_sums_of_the_table_are_exact(tmp_path: Path, rows_of: Any) -> None:
    texts = ["é" * number for number in (1, 2, 30, 30, 700)]
    limits = length_limits(rows_of(tmp_path, [{"question": text, "answer": "x"} for text in texts]), 3.0)
    assert limits.sums["question"] == _sum([1, 2, 30, 30, 700])
    assert limits.sums["answer"] == _sum([1] * 5)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({}, None),
        ({"question": "q"}, None),
        ({"question": "q", "answer": None}, None),
        ({"question": "q", "answer": "a"}, ("q", "a")),
    ],
)
def test_a_pair_needs_both_texts(output: dict[str, object], expected: tuple[str, str] | None) -> None:
    assert pair_of(output) == expected
