"""Agreement coefficients equal worked examples and reference packages, and know when they are undefined."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.plugins.evaluation.agreement import (
    MISSING,
    Votes,
    agreement,
    agreement_table,
    cohen_kappa,
    make_votes,
)

# Krippendorff (2011), section E: four observers, twelve units, values 1 to 5, with gaps.
KRIPPENDORFF = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]
# Fleiss (1971), the table of Wikipedia's worked example: 14 raters, 10 subjects, 5 categories.
FLEISS = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]


def _two(table: list[list[int]]) -> Votes:
    """Two judges from their confusion table."""
    rows = [[a, b] for a, line in enumerate(table) for b, n in enumerate(line) for _ in range(n)]
    return make_votes(rows, ("a", "b"), range(len(table)))


@pytest.mark.parametrize(("level", "expected"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_equals_krippendorffs_worked_example(level: str, expected: float) -> None:
    votes = make_votes(list(zip(*KRIPPENDORFF, strict=True)), "ABCD")
    assert agreement(votes, "krippendorff_alpha", level).value == pytest.approx(expected, abs=5e-4)  # type: ignore[arg-type]


def test_coefficients_with_missing_votes_equal_gwets_worked_example() -> None:
    """Gwet (2014), the same ratings with their gaps (`cac.raw4raters` of the package irrCAC)."""
    votes = make_votes(list(zip(*KRIPPENDORFF, strict=True)), "ABCD")
    assert agreement(votes, "raw").value == pytest.approx(0.81818, abs=5e-6)
    assert agreement(votes, "gwet_ac1").value == pytest.approx(0.77544, abs=5e-6)
    assert agreement(votes, "fleiss_kappa").value == pytest.approx(0.76117, abs=5e-6)
    assert agreement(votes, "krippendorff_alpha").value == pytest.approx(0.74342, abs=5e-6)


def test_fleiss_kappa_equals_the_worked_example() -> None:
    rows = [[k for k, n in enumerate(line) for _ in range(n)] for line in FLEISS]
    votes = make_votes(rows, [f"j{i}" for i in range(14)], range(5))
    assert agreement(votes, "fleiss_kappa").value == pytest.approx(0.210, abs=5e-4)


def test_cohen_kappa_equals_the_worked_example() -> None:
    assert cohen_kappa(_two([[20, 5], [10, 15]]), 0, 1).value == pytest.approx(0.4)


def test_ac1_stays_high_where_kappa_collapses() -> None:
    """Gwet (2008), the paradox: 118, 5, 2 and 0 of 125."""
    votes = _two([[118, 5], [2, 0]])
    assert cohen_kappa(votes, 0, 1).value == pytest.approx(-0.0234, abs=5e-4)
    assert agreement(votes, "gwet_ac1").value == pytest.approx(0.9408, abs=5e-4)
    assert agreement(votes, "raw").value == pytest.approx(0.944)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([None, 1, 2, 3, 4]), min_size=3, max_size=3), min_size=3, max_size=25),
    st.sampled_from(["nominal", "ordinal", "interval"]),
)
def test_alpha_equals_the_reference_package(table: list[list[int | None]], level: str) -> None:
    package = pytest.importorskip("krippendorff")
    votes = make_votes(table, "abc", [1, 2, 3, 4])
    ours = agreement(votes, "krippendorff_alpha", level, resamples=0).value  # type: ignore[arg-type]
    pairable = [row for row in table if sum(v is not None for v in row) >= 2]
    if len({v for row in pairable for v in row if v is not None}) < 2:
        assert ours is None
        return
    data = np.array([[np.nan if v is None else v for v in row] for row in table], dtype=float).T
    theirs = package.alpha(reliability_data=data, level_of_measurement=level, value_domain=[1, 2, 3, 4])
    assert ours == pytest.approx(theirs)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=2, max_size=25))
def test_kappas_equal_the_reference_package(table: list[list[int]]) -> None:
    package = pytest.importorskip("statsmodels.stats.inter_rater")
    votes = make_votes(table, "abc", range(4))
    ours = [agreement(votes, "fleiss_kappa", resamples=0).value, cohen_kappa(votes, 0, 1, resamples=0).value]
    square = np.zeros((4, 4))
    for a, b, _ in table:
        square[a, b] += 1
    with np.errstate(all="ignore"):
        theirs = [
            float(package.fleiss_kappa(votes.counts)),
            float(package.cohens_kappa(square, return_results=False)),
        ]
    for mine, other in zip(ours, theirs, strict=True):
        if mine is None:
            assert not np.isfinite(other)
        else:
            assert mine == pytest.approx(other, abs=1e-9)


def test_perfect_agreement_on_several_categories_is_one_with_no_width() -> None:
    votes = make_votes([[1, 1], [2, 2], [3, 3]] * 10, "ab")
    for found in (
        agreement(votes, "krippendorff_alpha"),
        agreement(votes, "fleiss_kappa"),
        agreement(votes, "gwet_ac1"),
        cohen_kappa(votes, 0, 1),
    ):
        assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


def test_one_category_is_undefined_but_for_ac1_with_both_categories_known() -> None:
    votes = make_votes([[True, True]] * 5, "ab", (False, True))
    assert agreement(votes, "krippendorff_alpha").value is None
    assert agreement(votes, "fleiss_kappa").value is None
    assert cohen_kappa(votes, 0, 1).value is None
    assert agreement(votes, "gwet_ac1").value == 1.0
    assert agreement(make_votes([[True, True]] * 5, "ab"), "gwet_ac1").value is None


def test_one_judge_has_nothing_to_agree_with() -> None:
    table = agreement_table(make_votes([[1], [2]], ("alone",)))
    assert table["cohen_kappa"] == []
    assert table["voted_twice"] == 0
    assert table["krippendorff_alpha"]["value"] is None
    assert table["gwet_ac1"]["value"] is None


def test_items_with_one_vote_change_nothing_of_alpha() -> None:
    rows = [[1, 1], [2, 1], [2, 2], [1, 1]]
    alone = [*rows, [2, None], [None, 1]]
    assert (
        agreement(make_votes(alone, "ab"), "krippendorff_alpha").value
        == agreement(make_votes(rows, "ab"), "krippendorff_alpha").value
    )


def test_no_votes_at_all_are_undefined() -> None:
    table = agreement_table(make_votes([[None, None]] * 3, "ab", (0, 1)))
    assert [table[name]["value"] for name in ("raw", "krippendorff_alpha", "fleiss_kappa", "gwet_ac1")] == [
        None
    ] * 4
    assert agreement_table(make_votes([], "ab", (0, 1)))["items"] == 0


def test_a_vote_outside_the_categories_is_refused() -> None:
    with pytest.raises(ValueError, match="not among the categories"):
        make_votes([[3]], "a", (0, 1))


def test_missing_votes_are_marked() -> None:
    assert make_votes([[None, 1]], "ab").codes.tolist() == [[MISSING, 0]]


def test_intervals_cover_the_truth_at_about_their_rate() -> None:
    """Two judges of known error on balanced items: kappa's truth by arithmetic; 200 seeded data sets."""
    right = (0.9, 0.8)
    agree = right[0] * right[1] + (1 - right[0]) * (1 - right[1])
    truth = (agree - 0.5) / 0.5
    covered = {"cohen": 0, "alpha": 0, "ac1": 0}
    for seed in range(200):
        rng = np.random.default_rng(seed)
        label = rng.random(150) < 0.5
        votes = make_votes(
            [[bool(v == (r < p)) for r, p in zip(rng.random(2), right, strict=True)] for v in label],
            "ab",
            (False, True),
        )
        for name, found in (
            ("cohen", cohen_kappa(votes, 0, 1, resamples=300, seed=seed)),
            ("alpha", agreement(votes, "krippendorff_alpha", resamples=300, seed=seed)),
            ("ac1", agreement(votes, "gwet_ac1", resamples=300, seed=seed)),
        ):
            assert found.low is not None
            assert found.high is not None
            covered[name] += found.low <= truth <= found.high
    print(covered)
    assert all(180 <= n <= 199 for n in covered.values()), covered  # 95 % of 200 is 190
