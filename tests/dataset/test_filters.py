"""The length filter is exact; the balanced sample is that of Algorithm 1, depends on no order, and is counted."""

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.config.sections import DatasetConfig, Debias
from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.dataset.filters import apply_filters, left_out, length_limits
from kgqa_hpc.dataset.record import pair_of

LENGTHS = st.lists(st.integers(0, 5_000), min_size=1, max_size=200)


def limits(lengths: list[int], z_score: float | None = 3.0) -> dict[str, Any]:
    return length_limits(len(lengths), sum(lengths), sum(length * length for length in lengths), z_score)


@given(LENGTHS)
def test_mean_and_population_deviation_are_those_of_numpy(lengths: list[int]) -> None:
    assert limits(lengths)["mean"] == pytest.approx(np.mean(lengths), rel=1e-12)
    assert limits(lengths)["deviation"] == pytest.approx(np.std(lengths), rel=1e-9, abs=1e-6)


@given(LENGTHS, st.fractions(Fraction(1, 100), 6), st.integers(0, 6_000))
def test_a_length_is_within_bounds_just_when_its_z_score_is(lengths: list[int], z: Fraction, x: int) -> None:
    z = Fraction(float(z))
    n = len(lengths)
    variance = Fraction(sum(v * v for v in lengths), n) - Fraction(sum(lengths), n) ** 2
    within = (x - Fraction(sum(lengths), n)) ** 2 <= z * z * variance
    bounds = limits(lengths, float(z))
    assert (bounds["minimum"] <= x <= bounds["maximum"]) == within


def test_equal_lengths_are_no_outliers_and_without_a_pair_or_z_score_nothing_is_bounded() -> None:
    every = limits([80] * 1000), limits([]), limits([1], None)
    ends = [(bounds["minimum"], bounds["maximum"]) for bounds in every]
    assert ends == [(80, 80), (None, None), (None, None)]


def test_the_table_gives_exact_sums_and_each_field_its_own_bounds(tmp_path: Path, rows_of: Any) -> None:
    texts = ["é" * number for number in [30] * 100 + [29, 31, 700]]
    rows = rows_of(tmp_path, [{"question": text, "answer": "x"} for text in texts])
    accounting = Accounting()
    apply_filters(rows, DatasetConfig(z_score=3.0), 1, tmp_path, accounting)
    described = accounting.lengths
    assert (described["standard_deviation"], described["pairs"]) == ("population", 103)
    assert described["question"] == limits(list(map(len, texts)))
    assert described["answer"] == limits([1] * 103)
    assert rows.rows("reason = 'length'").tolist() == [102]


def test_a_pair_needs_both_texts() -> None:
    outputs = [{}, {"question": "q"}, {"question": "q", "answer": None}, {"question": "q", "answer": "a"}]
    assert [pair_of(output) for output in outputs] == [None, None, None, ("q", "a")]


RECORDS = [{"topic": "common"}] * 90 + [{"topic": "rare"}] * 10


def drawn(rows: Any, number: int, seed: int) -> list[int]:
    out, _, _ = left_out(rows, Debias(columns=["topic"], number=number), seed)
    return sorted(set(range(len(rows))) - set(out.tolist()))


def test_the_distribution_is_successive_sampling_by_inverse_frequency(tmp_path: Path, rows_of: Any) -> None:
    rows = rows_of(tmp_path, RECORDS)
    chances = np.eye(11)[0]  # of so many rare ones among those drawn so far
    for number in range(10):
        rare = np.arange(11)
        left, common = np.maximum(10 - rare, 0) / 10, (90 - np.maximum(number - rare, 0)) / 90
        taken = chances * left / (left + common)
        chances = chances - taken + np.roll(taken, 1)
    mean = chances @ np.arange(11)
    deviation = (chances @ (np.arange(11) - mean) ** 2) ** 0.5
    ours = [sum(row >= 90 for row in drawn(rows, 10, seed)) for seed in range(150)]
    assert abs(np.mean(ours) - mean) < 4 * deviation / 150**0.5
    assert 5 - mean > 4 * deviation / 150**0.5, "half of each, as by quotas, would be told from it"


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


def test_a_value_below_a_missing_verdict_is_null(tmp_path: Path, rows_of: Any) -> None:
    verdicts = [None, {"clear": True}, {"clear": False}]
    rows = rows_of(tmp_path, [{"verdicts": {"judge": verdict}} for verdict in verdicts])
    _, before, _ = left_out(rows, Debias(columns=["verdicts.judge.clear"], number=2), 1)
    assert before == {"verdicts.judge.clear": {"false": 1, "null": 1, "true": 1}}
