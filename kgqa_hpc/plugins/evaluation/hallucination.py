"""Hallucination rates before and after cleaning, by judges that took no part in it, with two summary factors.

QAProt, section 4.1 and Table 3: a pair is a hallucination when it fails one criterion or more. The paper's
"13-fold" is the mean of the judges' reduction factors; the ratio of the mean rates is 9.9. Both are named.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.agreement import ENDS, MISSING, RESAMPLES, Codes, Floats
from kgqa_hpc.plugins.evaluation.judges import wilson
from kgqa_hpc.plugins.evaluation.records import mapping, read_votes, records
from kgqa_hpc.text.plain_text import aligned

SUMMARIES = {"mean_of_factors": "mean of the judges' factors", "ratio_of_means": "ratio of the mean rates"}


def _summaries(before: Floats, after: Floats) -> list[Floats]:
    """Both summaries of rates (…, judges), in the order of SUMMARIES; not finite where a rate after is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return [(before / after).mean(axis=-1), before.mean(axis=-1) / after.mean(axis=-1)]


def audit(
    before: Path, after: Path, panel: Path | None = None, *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Any]:
    """Rates, factors and both summaries from two audits (merged runs, or JSON lines with verdicts), with intervals.

    A verdict with a criterion that does not hold is a hallucination; records without a judge's vote are left out of
    its rate, and a factor is None where the rate after is 0. `panel` is the run that cleaned: none of its judges, by
    name and model, may be an auditor.
    Raises InputError for audits by different judges, or a judge of the panel.
    """
    (first, judges), (second, later_judges) = read_votes(before), read_votes(after)
    if set(judges) != set(later_judges):
        problem = f"{before} was judged by {', '.join(judges)}, {after} by {', '.join(later_judges)}"
        raise InputError(problem, "audit both with the same judges")
    cleaners = _models(panel, None) if panel is not None else set()
    for path in (before, after) if cleaners else ():
        if shared := sorted(_models(path, judges) & cleaners):
            problem = f"{path}: {shared[0]} is a judge of {panel}, which did the cleaning"
            raise InputError(problem, "audit with other models: a judge agrees with itself")
    sides = {"before": first, "after": second[:, [later_judges.index(name) for name in judges]]}
    rates: dict[str, dict[str, float]] = {}  # the share of each judge's pairs that fail
    intervals: dict[str, Any] = {}
    for side, votes in sides.items():
        failed, judged = (votes == 0).sum(axis=0).tolist(), (votes != MISSING).sum(axis=0).tolist()
        shares = dict(zip(judges, map(wilson, failed, judged), strict=True))
        rates[side] = {name: share["value"] or 0.0 for name, share in shares.items()}
        intervals[side] = {name: [share["low"], share["high"]] for name, share in shares.items()}
    mean_before, mean_after = (sum(side.values()) / len(judges) for side in rates.values())
    summaries = _summaries(*(np.array([*side.values()]) for side in rates.values()))
    factors = [float(factor) if np.isfinite(factor) else None for factor in summaries]
    texts = (f"{words} {_times(factor)}" for words, factor in zip(SUMMARIES.values(), factors, strict=True))
    after_of = rates["after"]
    return {
        **rates,
        "factors": {n: rate / after_of[n] if after_of[n] else None for n, rate in rates["before"].items()},
        "mean_before": mean_before,
        "mean_after": mean_after,
        **dict(zip(SUMMARIES, factors, strict=True)),
        "text": f"hallucination rate {mean_before:.4g} before, {mean_after:.4g} after "
        f"(mean of {len(judges)} judges); {', '.join(texts)}",
        "pairs": {side: len(votes) for side, votes in sides.items()},
        "intervals": {**intervals, **_intervals(list(sides.values()), resamples, seed)},
        "panel_checked": panel is not None,
    }


def _models(source: Path, judges: tuple[str, ...] | None) -> set[str]:
    """The models behind a source's verdicts; a judge's name where its records do not tell."""
    models: set[str] = set()
    for record in records(source):
        engines = mapping(record, "provenance").get("engine") or {}
        for name in mapping(record, "verdicts"):
            if judges is None or name in judges:
                models.add((engines.get(name) or {}).get("model") or name)
    return models


def _intervals(votes: Sequence[Codes], resamples: int, seed: int) -> dict[str, list[float] | None]:
    """95 % intervals of both summaries: a bootstrap over pairs (with all their verdicts), separately in each audit.

    None if a resample has no hallucination left, because the factor then has no upper end.
    """
    rng = np.random.default_rng(seed)
    rates: list[Floats] = []  # (resamples, judges) before and after
    for codes in votes:
        samples = (codes[rng.integers(0, len(codes), len(codes))] for _ in range(resamples))
        shares = [(s == 0).sum(axis=0) / np.maximum((s != MISSING).sum(axis=0), 1) for s in samples]
        rates.append(np.array(shares))
    return {
        name: np.quantile(values, ENDS).tolist() if np.isfinite(values).all() else None
        for name, values in zip(SUMMARIES, _summaries(*rates), strict=True)
    }


def render(document: dict[str, Any]) -> str:
    """An audit as text."""
    rows = [("judge", "before", "after", "factor")]
    for name, factor in document["factors"].items():
        shares = []
        for side in ("before", "after"):
            value, (low, high) = document[side][name], document["intervals"][side][name]
            shares.append(f"{100 * value:.2f} % [{100 * low:.2f}, {100 * high:.2f}]")
        rows.append((name, *shares, _times(factor)))
    lines = aligned(rows)
    for name, words in SUMMARIES.items():
        ends = document["intervals"][name]
        interval = "no upper end: some resamples have none left"
        interval = f"{ends[0]:.1f} to {ends[1]:.1f}" if ends else interval
        lines.append(f"{words}: {_times(document[name])} (95 %: {interval})")
    if not document["panel_checked"]:
        lines.append("Nobody checked that these judges did not clean: give the run that cleaned as --panel.")
    return "\n".join(lines)


def _times(factor: float | None) -> str:
    return "undefined (a rate of 0)" if factor is None else f"{factor:.1f}"
