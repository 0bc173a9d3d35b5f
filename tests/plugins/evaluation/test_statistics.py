"""Statistics equal scipy, statsmodels, krippendorff and worked examples; intervals cover the truth at their rate."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats import contingency_tables, inter_rater, multitest, proportion

from kgqa_hpc.plugins.evaluation.agreement import (
    Votes,
    agreement_table,
    auc,
    estimate,
    interval,
    interval_text,
    make_votes,
    mean_of,
    measure,
    rank_test,
    ratio,
    wilson,
)
from kgqa_hpc.plugins.evaluation.human_sample import pairs_for_difference
from kgqa_hpc.plugins.evaluation.judges import rules
from kgqa_hpc.plugins.evaluation.retest import compare_verdicts
from kgqa_hpc.plugins.evaluation.study import holm, wilcoxon_signed_rank
from tests.plugins.evaluation.pairs import planted


def two(table: Sequence[Sequence[int]]) -> Votes:
    """Two judges from their confusion table."""
    rows = [[a, b] for a, line in enumerate(table) for b, n in enumerate(line) for _ in range(n)]
    return make_votes(rows, ("a", "b"), range(len(table)))


Pair = tuple[Callable[..., Any], Callable[..., Any]]


def votes_of(codes: np.ndarray) -> Votes:
    return Votes(codes, ("a", "b", "c"), (0, 1, 2, 3))


def coefficient(votes: Votes, name: str, level: Any = "nominal") -> Any:
    entry = agreement_table(votes, level, resamples=0)[name]
    return (entry[0] if name == "cohen_kappa" else entry)["value"]


def alpha(level: str) -> Pair:
    def reference(codes: np.ndarray) -> float:
        pairable = codes[(codes >= 0).sum(axis=1) >= 2]
        if len(np.unique(pairable[pairable >= 0])) < 2:
            return np.nan
        data = np.where(codes < 0, np.nan, codes).T
        return float(krippendorff.alpha(data, level_of_measurement=level, value_domain=[0, 1, 2, 3]))

    return lambda codes: coefficient(votes_of(codes), "krippendorff_alpha", level), reference


def finite(value: Any) -> float:
    return float(value) if np.isfinite(value) else np.nan


def square(a: np.ndarray, b: np.ndarray, size: int = 4) -> np.ndarray:
    return np.bincount(a * size + b, minlength=size * size).reshape(size, size)


def paired(a: np.ndarray, b: np.ndarray) -> float:
    """The reference does not know that equal pairs are no difference."""
    pratt: Any = {"zero_method": "pratt", "method": "asymptotic"}
    return 1.0 if (a == b).all() else float(stats.wilcoxon(a, b, **pratt).pvalue)


def unpaired(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    result = stats.mannwhitneyu(a, b, alternative="two-sided", method="asymptotic")
    return float(result.statistic), 1.0 if np.isnan(result.pvalue) else float(result.pvalue)


def u_share(a: np.ndarray, truth: np.ndarray) -> float:
    good, bad = a[truth], a[~truth]
    return unpaired(good, bad)[0] / (len(good) * len(bad)) if len(good) and len(bad) else np.nan


def shares(decision: np.ndarray, truth: np.ndarray) -> list[float]:
    """Wilson's intervals of precision and recall."""
    right, sizes = int((decision & truth).sum()), (int(decision.sum()), int(truth.sum()))
    wilsons = partial(proportion.proportion_confint, right, method="wilson")
    ends = (wilsons(n) if n else (np.nan, np.nan) for n in sizes)
    return [end for interval in ends for end in interval]


def ends_of(measures: dict[str, Any]) -> list[Any]:
    return [measures[key][end] for key in ("precision", "recall") for end in ("low", "high")]


def sample_size(low: int, difference: int) -> float:
    """Of two groups that differ in shares between 0.1 and 0.9."""
    size = proportion.samplesize_proportions_2indep_onetail(0.1 + difference / 10, 0.1 + low / 10, 0.8)
    return float(np.ceil(size))


def corrected(p: np.ndarray, _: np.ndarray) -> np.ndarray:
    with patch("gc.collect"):  # each call collects all garbage of this process: 0.2 s
        return np.asarray(multitest.multipletests(p / 40, method="holm")[1])


# Ours and the reference's of three judges' votes on items, (items, 3): 0 to 3, or -1 where a vote is missing.
GAPS = {level: alpha(level) for level in ("nominal", "ordinal", "interval")}
# Of the first two judges, of their votes as good or bad, or of all, without gaps.
TWO: dict[str, Pair] = {
    "cohen": (
        lambda a, b: coefficient(Votes(np.stack([a, b], axis=1), ("a", "b"), (0, 1, 2, 3)), "cohen_kappa"),
        lambda a, b: finite(inter_rater.cohens_kappa(square(a, b), return_results=False)),
    ),
    "auc": (lambda a, b: auc(a.astype(float), b > 1, resamples=0)["value"], lambda a, b: u_share(a, b > 1)),
    "mann-whitney and cliff": (
        rank_test,
        lambda a, b: (*unpaired(a, b), np.sign(a[:, None] - b[None, :]).mean()),
    ),
    "wilcoxon": (wilcoxon_signed_rank, paired),
    "holm": (lambda a, _: holm(list(a / 40)), corrected),
    "sample size": (
        lambda a, b: pairs_for_difference(0.2 + (a[0] + b[0]) / 10, 0.1 + b[0] / 10),
        lambda a, b: sample_size(a[0], b[0]),
    ),
}
BINARY: dict[str, Pair] = {
    "kappa of decisions": (
        lambda a, b: measure(a, b == 1, resamples=0)["kappa"]["value"],
        lambda a, b: finite(inter_rater.cohens_kappa(square(a, b, 2), return_results=False)),
    ),
    "precision and recall": (
        lambda a, b: ends_of(measure(a, b == 1, resamples=0)),
        lambda a, b: shares(a == 1, b == 1),
    ),
    "mcnemar": (
        lambda a, b: compare_verdicts(a, b, resamples=0)["p"],
        lambda a, b: contingency_tables.mcnemar(square(a, b, 2), exact=True).pvalue,
    ),
}
FLEISS: Pair = (
    lambda codes: coefficient(votes_of(codes), "fleiss_kappa"),
    lambda codes: finite(inter_rater.fleiss_kappa(inter_rater.aggregate_raters(codes, 4)[0])),
)


def rows_of(lowest: int) -> st.SearchStrategy[list[list[int]]]:
    return st.lists(st.lists(st.integers(lowest, 3), min_size=3, max_size=3), min_size=3, max_size=25)


def check(ours: Callable[..., Any], theirs: Callable[..., Any], *samples: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        expected = np.asarray(theirs(*samples), dtype=float)
    assert np.asarray(ours(*samples), dtype=float) == pytest.approx(expected, abs=1e-9, nan_ok=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*TWO, *BINARY, "fleiss"])
@settings(max_examples=40, deadline=None)
@given(rows=rows_of(0))
def test_a_statistic_is_its_references(name: str, rows: list[list[int]]) -> None:
    codes = np.array(rows)
    samples = dict.fromkeys(TWO, codes.T[:2]) | dict.fromkeys(BINARY, codes.T[:2] // 2)
    check(*(TWO | BINARY).get(name, FLEISS), *samples.get(name, [codes]))


@pytest.mark.parametrize("level", GAPS)
@settings(max_examples=40, deadline=None)
@given(rows=rows_of(-1))
def test_alpha_with_missing_votes_is_its_references(level: str, rows: list[list[int]]) -> None:
    check(*GAPS[level], np.array(rows))


# Krippendorff (2011), section E: four observers, twelve units, values 1 to 5, with gaps (0).
KRIPPENDORFF = ("123321412000", "123322412503", "033323422510", "123324412510")
OBSERVERS = make_votes([[int(v) or None for v in unit] for unit in zip(*KRIPPENDORFF, strict=True)], "ABCD")


@pytest.mark.parametrize(
    ("votes", "name", "expected"),
    [
        # Gwet (2014), the same ratings with their gaps (`cac.raw4raters` of the package irrCAC).
        (OBSERVERS, "raw", "0.81818"),
        (OBSERVERS, "gwet_ac1", "0.77544"),
        (OBSERVERS, "fleiss_kappa", "0.76117"),
        # Gwet (2008), the paradox: 118, 5, 2 and 0 of 125. AC1 stays high where kappa collapses.
        (two([[118, 5], [2, 0]]), "gwet_ac1", "0.941"),
        (two([[118, 5], [2, 0]]), "raw", "0.944"),
    ],
)
def test_a_coefficient_is_that_of_the_worked_example(votes: Votes, name: str, expected: str) -> None:
    value = coefficient(votes, name)
    assert f"{value:.{len(expected) - 2}f}" == expected


def test_published_decisions_against_published_ratings_give_their_shares() -> None:
    """78 accepted of which 59 are good, 28 rejected of which 9 are (S0's data, 106 ratings)."""
    truth = np.array([True] * 59 + [False] * 19 + [True] * 9 + [False] * 19)
    measures = measure(np.array([1] * 78 + [0] * 28), truth)
    assert round(100 * measures["precision"]["value"], 2) == 75.64
    assert measures["recall"]["value"] == pytest.approx(59 / 68)
    assert 1 - measures["confusion"]["true_reject"] / 28 == pytest.approx(0.3214, abs=1e-4)
    assert measures["kappa"]["value"] == pytest.approx(0.3903, abs=1e-4)


COEFFICIENTS = ("raw", "krippendorff_alpha", "fleiss_kappa", "gwet_ac1")


@pytest.mark.parametrize(
    ("rows", "categories", "defined"),
    [
        ([[1, 1], [2, 2], [3, 3]] * 10, None, {*COEFFICIENTS, "cohen"}),
        ([[True, True]] * 5, (False, True), {"raw", "gwet_ac1"}),
        ([[True, True]] * 5, None, {"raw"}),
        ([[1, None], [2, None]], None, set()),
        ([[None, None]] * 3, (0, 1), set()),
        ([], (0, 1), set()),
    ],
)
def test_perfect_agreement_is_one_with_no_width_and_undefined_where_there_is_nothing_to_agree_on(
    rows: Any, categories: Any, defined: set[str]
) -> None:
    row = agreement_table(make_votes(rows, "ab", categories))
    entries = {**{name: row[name] for name in COEFFICIENTS}, "cohen": row["cohen_kappa"][0]}
    for name, entry in entries.items():
        expected = (1.0, 1.0, 1.0) if name in defined else (None, None, None)
        assert (entry["value"], entry["low"], entry["high"]) == expected, name


def test_one_judge_has_nothing_to_agree_with() -> None:
    row = agreement_table(make_votes([[1], [2]], ("alone",)))
    assert (row["cohen_kappa"], row["voted_twice"], row["gwet_ac1"]["value"]) == ([], 0, None)


def coverage(seed: int) -> dict[str, tuple[dict[str, Any], float]]:
    """Intervals of one seeded data set of 200 pairs, each with the truth of what was planted."""
    rng = np.random.default_rng(seed)
    sure: dict[str, int] = {"resamples": 300, "seed": seed}
    truth = rng.random(200) < 0.5
    first = planted(truth, (0.8, 0.8, 0.8), rng)
    two_agree = 0.8**2 + 0.2**2
    chance_corrected = (two_agree - 0.5) / 0.5
    table = agreement_table(Votes(first.votes[:, :2], ("a", "b"), (False, True)), **sure)
    intervals = {name: (table[name], chance_corrected) for name in ("krippendorff_alpha", "gwet_ac1")}
    intervals["cohen"] = table["cohen_kappa"][0], chance_corrected
    good = rng.random(200) < 0.6
    judge = planted(good, (0.85,), rng)
    accepted = 0.6 * 0.85 + 0.4 * 0.15
    chance = 0.6 * accepted + 0.4 * (1 - accepted)
    measures = measure(judge.votes[:, 0], good, **sure)
    truths = {"precision": 0.51 / accepted, "recall": 0.85, "accuracy": 0.85}
    truths["kappa"] = (0.85 - chance) / (1 - chance)
    intervals |= {name: (measures[name], value) for name, value in truths.items()}
    intervals["auc"] = (auc(judge.scores[:, 0], good, **sure), 0.85)
    # Three independent judges, each right with 0.8: their majority is right with 0.896, `all` with 0.752.
    for name, right in {"majority": 0.8**3 + 3 * 0.8**2 * 0.2, "all": (0.8**3 + 1 - 0.2**3) / 2}.items():
        intervals[name] = (measure(rules(first.votes)[name], truth, **sure)["accuracy"], right)
    again = np.where(~truth & (rng.random(200) < 0.2), 1, truth)
    intervals["shift"] = (compare_verdicts(truth.astype(np.int64), again, **sure)["shift"], 0.1)
    return intervals


def test_intervals_cover_the_truth_at_about_their_rate() -> None:
    covered: dict[str, int] = {}
    for seed in range(200):
        for name, (ends, truth) in coverage(seed).items():
            covered[name] = covered.get(name, 0) + (ends["low"] <= truth <= ends["high"])
    print(covered)
    assert all(180 <= n <= 199 for n in covered.values()), covered  # 95 % of 200 is 190


def test_items_without_a_score_or_a_second_verdict_are_left_out() -> None:
    rng = np.random.default_rng(3)
    truth, scores = rng.random(80) < 0.4, rng.integers(0, 5, 80).astype(float)
    gaps = np.where(np.arange(80) < 10, np.nan, scores)
    assert auc(gaps, truth)["value"] == pytest.approx(auc(scores[10:], truth[10:])["value"])
    comparison = compare_verdicts(np.array([1, -1]), np.array([-1, 0]))
    assert (comparison["items"], comparison["same"]["value"], comparison["kappa"]) == (0, None, None)
    same = compare_verdicts(np.array([1, 0, 1, -1]), np.array([1, 0, 1, -1]))
    assert (same["items"], same["same"]["value"], same["kappa"], same["p"]) == (3, 1.0, 1.0, 1.0)


def test_a_million_records_of_three_judges_have_few_patterns() -> None:
    codes = np.random.default_rng(4).integers(-1, 2, size=(1_000_000, 3))
    row = agreement_table(Votes(codes, ("a", "b", "c"), (False, True)))["krippendorff_alpha"]
    assert abs(row["value"]) < 0.01
    assert row["high"] - row["low"] < 0.01


def test_few_items_and_undefined_values_are_told_apart() -> None:
    assert estimate(mean_of(np.empty(0)), 0) == interval(None)
    assert estimate(mean_of(np.array([2.0])), 1) == interval(2.0)
    assert estimate(mean_of(np.array([np.nan, np.nan])), 2) == interval(None)
    rare = estimate(mean_of(np.array([np.nan] * 5 + [1.0])), 6)
    assert rare["value"] == 1.0
    assert rare["undefined"] > 0
    assert interval_text(interval(None)) == "undefined"
    assert interval_text(interval(0.5, 0.25, 0.75)) == "0.500 [0.250, 0.750]"
    assert np.isnan(ratio(np.array([1.0, 2.0]), np.array([0.0, 4.0]))).tolist() == [True, False]
    assert wilson(0, 0)["value"] is None
