"""The figures of a study are written, with the best variant's comparisons, and the same again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kgqa_hpc.plugins.evaluation.compare import compare
from kgqa_hpc.plugins.evaluation.figures import _levels, stars, study_figures
from tests.plugins.evaluation.pairs import expand_histogram

pytest.importorskip("matplotlib")


def test_both_figures_name_every_variant_and_the_p_values(tmp_path: Path) -> None:
    base = expand_histogram((4, 4, 19, 84, 206, 304, 379))
    rng = np.random.default_rng(0)
    scores = {f"p{i}": np.clip(base - i * 0.5 * rng.random(1000), 0, 6).round() for i in range(7)}
    found = compare(scores, paired=True)
    first = study_figures(scores, found, tmp_path / "a")
    again = study_figures(scores, found, tmp_path / "b")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    box, histograms = (path.read_text(encoding="utf-8") for path in first)
    assert all(f">p{i}<" in box for i in range(7))
    assert box.count("(p = ") == 2
    assert all(f">p{i} (mean " in histograms for i in range(7))


def test_one_variant_is_drawn_without_a_comparison(tmp_path: Path) -> None:
    assert len(study_figures({"only": np.array([1.0, 2.0])}, [], tmp_path)) == 2


def test_sums_of_criteria_are_shown_on_the_whole_scale_and_other_scores_on_their_own() -> None:
    near = {"a": np.array([2.0, 3.0]), "b": np.array([3.0, 3.0])}
    assert _levels(near, 6).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert _levels(near, 0).tolist() == [2, 3]
    assert _levels({"a": np.array([0.5, 7.0])}, 6).tolist() == [0.5, 7.0]


def test_stars_say_what_p_is() -> None:
    assert [stars(p) for p in (0.0005, 0.005, 0.02, 0.2)] == ["***", "**", "*", "ns"]
