"""Variants compared: is the best one better than the others, by tests and effect sizes, or is the difference noise?

As the published prompt study (BioGraphletQA, section 4.1): the variant with the best mean against each other
one, Mann-Whitney two-sided; beside it Holm's correction, Cliff's delta and, where all variants answered the
same anchors, Wilcoxon's signed rank test on the pairs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kgqa_hpc.plugins.evaluation.agreement import estimate, mean_of

ALPHA = 0.05


class Comparison(NamedTuple):
    """The best variant against another: unpaired and, for the same anchors, paired.

    `u` is the best one's Mann-Whitney U, `delta` Cliff's delta in [-1, 1]; `p_holm` and `p_paired_holm` are
    corrected over all comparisons. Paired values are None where the anchors are not the same.
    """

    best: str
    other: str
    u: float
    p: float
    p_holm: float
    delta: float
    difference: float
    p_paired: float | None = None
    p_paired_holm: float | None = None


def summarise(name: str, scores: ArrayLike, *, seed: int = 0) -> dict[str, Any]:
    """Statistics of one variant's scores (n,): number, mean with interval, population sd, count of each value.

    Raises ValueError for an empty array.
    """
    values = np.asarray(scores, dtype=np.float64)
    if not len(values):
        raise ValueError(f"{name} has no scores")
    levels, counts = np.unique(values, return_counts=True)
    mean = estimate(mean_of(values), len(values), seed=seed)
    return {
        "items": len(values),
        "mean": mean["value"],
        "low": mean["low"],
        "high": mean["high"],
        "sd": float(values.std()),
        "histogram": {f"{level:g}": int(n) for level, n in zip(levels, counts, strict=True)},
    }


def mann_whitney(first: ArrayLike, second: ArrayLike) -> tuple[float, float]:
    """U of the first sample and its two-sided p (normal approximation with ties and continuity)."""
    from scipy.stats import mannwhitneyu

    result = mannwhitneyu(first, second, alternative="two-sided", method="asymptotic")
    # If all values are equal, the test is undefined.
    return float(result.statistic), 1.0 if np.isnan(result.pvalue) else float(result.pvalue)


def cliffs_delta(first: ArrayLike, second: ArrayLike) -> float:
    """P(first > second) - P(first < second) for a draw of each, from U, which counts half of the ties."""
    pairs = np.size(first) * np.size(second)
    return (2 * mann_whitney(first, second)[0] - pairs) / pairs


def wilcoxon_signed_rank(first: ArrayLike, second: ArrayLike) -> float:
    """Two-sided p of the paired differences; ties are kept by Pratt's rule. 1.0 when all pairs are equal."""
    from scipy.stats import wilcoxon

    if np.array_equal(first, second):
        return 1.0
    test = wilcoxon(first, second, zero_method="pratt", alternative="two-sided", method="asymptotic")
    return float(test.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's (1979) step-down correction, in the order given."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(np.minimum(p[order] * np.arange(len(p), 0, -1), 1.0))
    return corrected.tolist()


def compare(scores: Mapping[str, ArrayLike], *, paired: bool) -> list[Comparison]:
    """Compare the variant with the highest mean with each other variant, in descending order of their means.

    `scores` maps a variant to its scores; with `paired` row i of all is the same anchor. The first of equal
    means is the best. Raises ValueError for fewer than two variants or rows that cannot be pairs.
    """
    values = {name: np.asarray(numbers, dtype=np.float64) for name, numbers in scores.items()}
    sizes = {len(numbers) for numbers in values.values()}
    if len(values) < 2 or 0 in sizes:
        raise ValueError("a comparison needs two variants with scores")
    if paired and len(sizes) > 1:
        problem = "paired scores need the same anchors, but the variants have different numbers of them"
        raise ValueError(problem)
    best, *rivals = sorted(values, key=lambda name: -values[name].mean())
    top, samples = values[best], [values[rival] for rival in rivals]
    unpaired = [mann_whitney(top, sample) for sample in samples]
    tests: list[list[Any]] = [holm([p for _, p in unpaired]), [None] * len(rivals), [None] * len(rivals)]
    if paired:
        p_paired = [wilcoxon_signed_rank(top, sample) for sample in samples]
        tests[1:] = p_paired, holm(p_paired)
    comparisons = []
    for rival, sample, (u, p), p_holm, *pairs in zip(rivals, samples, unpaired, *tests, strict=True):
        effects = cliffs_delta(top, sample), float(top.mean() - sample.mean())
        comparisons.append(Comparison(best, rival, u, p, p_holm, *effects, *pairs))
    return comparisons


def recommendation(comparisons: Sequence[Comparison]) -> str:
    """One sentence: the recommended variant, and the variants that do not differ significantly from it.

    Paired tests are used if there are any, because they have more power; p is Holm-corrected.
    """
    nearest, best = comparisons[0], comparisons[0].best
    p_values = [c.p_holm if c.p_paired_holm is None else c.p_paired_holm for c in comparisons]
    noise = [(c, p) for c, p in zip(comparisons, p_values, strict=True) if p >= ALPHA]
    if not noise:
        return (
            f"Take {best}: it is better than every other variant; nearest is {nearest.other}, lower by "
            f"{nearest.difference:.3g} on average (p = {p_values[0]:.2g} after Holm, "
            f"Cliff's delta {nearest.delta:.2f})."
        )
    names, lowest = ", ".join(c.other for c, _ in noise), min(p for _, p in noise)
    remark = "no variant is told from it" if len(noise) == len(comparisons) else "the others are lower"
    return (
        f"{best} has the highest mean, but its difference from {names} is noise at this number of anchors "
        f"(up to {max(c.difference for c, _ in noise):.2g}; p >= {lowest:.2g} after Holm): take "
        f"whichever of them costs least, or compare them on more anchors; {remark}."
    )
