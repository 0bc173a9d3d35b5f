"""The balanced sample is that of Algorithm 1, depends on no order, and is counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgqa_hpc.config.dataset import Debias
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.dataset.sampling import left_out
from kgqa_hpc.errors import InputError

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


def test_a_merge_evens_out_groups_and_says_before_and_after(make_run: Any) -> None:
    run = make_run(dataset={"debias": {"columns": ["group"], "number": 12}})
    run.finish()
    accounting = merge(run.folder)
    assert accounting.total.accepted == 12
    told = accounting.filters["debias"]
    assert (
        told["not drawn"]
        == accounting.total.rejected["not drawn"]
        == sum(told["before"]["group"].values()) - 12
    )
    assert Counter(told["after"]["group"]).total() == 12


def test_a_column_that_no_record_has_is_named(tmp_path: Path, rows_of: Any) -> None:
    with pytest.raises(InputError, match="no column 'colour'"):
        left_out(rows_of(tmp_path, RECORDS), Debias(columns=["colour"], number=1), 1)
