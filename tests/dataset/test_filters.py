"""The length filter is exact; the balanced sample is that of Algorithm 1, depends on no order, and is counted."""

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.config.dataset import Debias
from kgqa_hpc.dataset.filters import LengthLimits, LengthSum, length_limits
from kgqa_hpc.dataset.record import pair_of
from kgqa_hpc.dataset.sampling import left_out
from kgqa_hpc.errors import InputError

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


def test_equal_lengths_are_no_outliers_and_without_a_pair_or_z_score_nothing_is_bounded() -> None:
    assert _sum([80] * 1000).bounds(3.0) == (80, 80)
    limits = LengthLimits({"question": _sum([]), "answer": _sum([])}, 3.0)
    assert limits.bounds == {"question": None, "answer": None}
    assert limits.to_dict()["pairs"] == 0
    assert LengthLimits({"question": _sum([1]), "answer": _sum([1])}, None).bounds["question"] is None


def test_each_field_has_its_own_bounds() -> None:
    questions, answers = [100 + i % 3 for i in range(200)], [300 + i % 5 for i in range(200)]
    limits = LengthLimits({"question": _sum(questions), "answer": _sum(answers)}, 3.0)
    assert limits.bounds == {"question": (99, 103), "answer": (298, 306)}
    described = limits.to_dict()
    assert described["standard_deviation"] == "population"
    assert (described["question"]["minimum"], described["question"]["maximum"]) == (99, 103)


def test_the_sums_of_the_table_are_exact(tmp_path: Path, rows_of: Any) -> None:
    texts = ["é" * number for number in (1, 2, 30, 30, 700)]
    limits = length_limits(rows_of(tmp_path, [{"question": text, "answer": "x"} for text in texts]), 3.0)
    assert limits.sums["question"] == _sum([1, 2, 30, 30, 700])
    assert limits.sums["answer"] == _sum([1] * 5)


def test_a_pair_needs_both_texts() -> None:
    outputs = [{}, {"question": "q"}, {"question": "q", "answer": None}, {"question": "q", "answer": "a"}]
    assert [pair_of(output) for output in outputs] == [None, None, None, ("q", "a")]


RECORDS = [{"topic": "common"}] * 90 + [{"topic": "rare"}] * 10


def drawn(rows: Any, number: int, seed: int) -> list[int]:
    out, _, _ = left_out(rows, Debias(columns=["topic"], number=number), seed)
    return sorted(set(range(len(rows))) - set(out.tolist()))


def test_the_distribution_is_that_of_successive_sampling_by_inverse_frequency(
    tmp_path: Path, rows_of: Any
) -> None:
    rows = rows_of(tmp_path, RECORDS)
    weights = np.array([1 / 90] * 90 + [1 / 10] * 10)
    rng = np.random.default_rng(1)
    oracle = [
        (rng.choice(100, 10, replace=False, p=weights / weights.sum()) >= 90).sum() for _ in range(2000)
    ]
    ours = [sum(row >= 90 for row in drawn(rows, 10, seed)) for seed in range(400)]
    # Two means of counts with a deviation below 1.6: 5 standard errors of their difference.
    assert abs(np.mean(ours) - np.mean(oracle)) < 5 * 1.6 * (1 / 400 + 1 / 2000) ** 0.5


def test_a_draw_of_all_takes_all_and_the_same_seed_the_same(tmp_path: Path, rows_of: Any) -> None:
    rows = rows_of(tmp_path, RECORDS)
    assert drawn(rows, 100, 1) == list(range(100))
    assert drawn(rows, 20, 1) == drawn(rows, 20, 1) != drawn(rows, 20, 2)


def test_the_draw_depends_on_no_order(tmp_path: Path, rows_of: Any) -> None:
    records = [{"id": f"x{i}", **one} for i, one in enumerate(RECORDS)]
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    forth, back = rows_of(tmp_path / "one", records), rows_of(tmp_path / "two", records[::-1])
    assert drawn(forth, 30, 5) == sorted(99 - row for row in drawn(back, 30, 5))


def test_a_merge_evens_out_groups_and_says_before_and_after(make_merged: Any) -> None:
    _, accounting = make_merged(dataset={"debias": {"columns": ["group"], "number": 12}})
    assert accounting.total.accepted == 12
    told = accounting.filters["debias"]
    assert told["not drawn"] == accounting.total.rejected["not drawn"]
    assert told["not drawn"] == sum(told["before"]["group"].values()) - 12
    assert Counter(told["after"]["group"]).total() == 12


def test_a_column_that_no_record_has_is_named(tmp_path: Path, rows_of: Any) -> None:
    with pytest.raises(InputError, match="no column 'colour'"):
        left_out(rows_of(tmp_path, RECORDS), Debias(columns=["colour"], number=1), 1)
