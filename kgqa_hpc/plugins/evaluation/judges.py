"""Judges compared with each other, without human ratings: panels, columns of labels, and audits for hallucinations.

A rule of a panel decides only items that every judge has voted on; an item with a missing verdict stays -1 and is
counted. Tables compare a run's judges, or columns of labels that name the same property (the type of a question by rule
and by a judge).

An audit gives hallucination rates before and after cleaning, by judges that took no part in it (QAProt, section 4.1 and
Table 3): a pair is a hallucination when it fails one criterion or more. The paper's "13-fold" is the mean of the
judges' reduction factors; the ratio of the mean rates is 9.9. Both are named.
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation import agreement
from kgqa_hpc.plugins.evaluation.agreement import MISSING, Codes, Floats, Truth, Votes, wilson
from kgqa_hpc.plugins.evaluation.records import mapping, read_votes, records
from kgqa_hpc.text.plain_text import aligned, plain_line

LEAST = 0.01


def weighted(verdicts: Codes, weights: Floats) -> Codes:
    """Accept an item if the judges that accept it hold at least half of all `weights` (judges,), as a run decides.

    `verdicts` (items, judges) → (items,).
    """
    full = (verdicts != MISSING).all(axis=1)
    return np.where(full, (verdicts == 1) @ weights >= weights.sum() / 2, MISSING).astype(np.int64)


def rules(verdicts: Codes) -> dict[str, Codes]:
    """Decisions of all rules without weights, by name: `all`, `majority` and every other `k of n`."""
    n = verdicts.shape[1]
    half = n // 2 + 1  # a tie is not a majority
    needed = {"all": n, "majority": half, **{f"{k} of {n}": k for k in range(1, n) if k != half}}
    full, accepted = (verdicts != MISSING).all(axis=1), (verdicts == 1).sum(axis=1)
    return {name: np.where(full, accepted >= k, MISSING).astype(np.int64) for name, k in needed.items()}


def log_odds_weights(verdicts: Codes, truth: Truth) -> Floats:
    """Weight of each judge: the log odds that it is right, with one success and one failure added.

    The optimal weights of independent judges (Nitzan and Paroush 1982). Missing verdicts are left out. A judge
    that is no better than chance gets LEAST.
    """
    voted = verdicts != MISSING
    hits = (((verdicts == 1) == truth[:, None]) & voted).sum(axis=0) + 1.0
    return np.maximum(np.log(hits / (voted.sum(axis=0) + 2.0 - hits)), LEAST)


def confusion(verdicts: Codes, judges: Sequence[str]) -> list[dict[str, Any]]:
    """For every pair of judges the number of items that both, one or neither accepts, or that lack a verdict."""
    cells = {"both": (1, 1), "only_first": (1, 0), "only_second": (0, 1), "neither": (0, 0)}
    rows = []
    for a, b in combinations(range(len(judges)), 2):
        counts = {name: int((verdicts[:, [a, b]] == pair).all(axis=1).sum()) for name, pair in cells.items()}
        missing = len(verdicts) - sum(counts.values())
        rows.append({"judges": [judges[a], judges[b]], **counts, "missing": missing})
    return rows


def decides_alone(verdicts: Codes, judges: Sequence[str]) -> dict[str, dict[str, int]]:
    """Number of items that each judge alone rejects, and that it alone accepts.

    Under the rule `all` a judge's lone rejections are the items that it alone removes; under `1 of n` its lone
    acceptances are those that it alone keeps. Counted over items with all verdicts, in panels of two or more.
    """
    n = len(judges)
    full = verdicts[(verdicts != MISSING).all(axis=1) & (n > 1)]
    accepted = full.sum(axis=1)
    rejects = ((full == 0) & (accepted == n - 1)[:, None]).sum(axis=0).tolist()
    accepts = ((full == 1) & (accepted == 1)[:, None]).sum(axis=0).tolist()
    return {name: {"rejects_alone": rejects[j], "accepts_alone": accepts[j]} for j, name in enumerate(judges)}


def alone_lines(alone: dict[str, dict[str, int]]) -> list[str]:
    """The counts of `decides_alone` as text."""
    return [
        f"{plain_line(name)}: alone rejects {counts['rejects_alone']:,}, alone accepts {counts['accepts_alone']:,}"
        for name, counts in alone.items()
    ]


def panel_table(source: Path, *, seed: int = 0) -> dict[str, Any]:
    """For a merged run or a file of records: acceptance of each judge; for several judges also acceptance of each
    rule, confusion, lone decisions and agreement.

    Raises InputError when no record has a vote.
    """
    votes, judges = read_votes(source)
    several = len(judges) > 1
    agreed = agreement.agreement_table(Votes(votes, judges, (False, True)), seed=seed)
    return {
        "records": len(votes),
        "judges": {name: _row(votes[:, j]) for j, name in enumerate(judges)},
        "rules": {rule: _row(decision) for rule, decision in rules(votes).items()} if several else {},
        "confusion": confusion(votes, judges),
        "alone": decides_alone(votes, judges),
        "agreement": agreed if several else None,
    }


def _row(decision: Codes) -> dict[str, Any]:
    accepted, rejected = int((decision == 1).sum()), int((decision == 0).sum())
    counts = {"accepted": accepted, "rejected": rejected, "missing": len(decision) - accepted - rejected}
    return {**counts, "share": wilson(accepted, accepted + rejected)}


def render(document: dict[str, Any]) -> str:
    """The table as text."""
    rows = [("judge or rule", "accepted", "rejected", "missing", "share")]
    for name, entry in {**document["judges"], **document["rules"]}.items():
        accepted, rejected, missing = (f"{entry[key]:,}" for key in ("accepted", "rejected", "missing"))
        rows.append((name, accepted, rejected, missing, agreement.interval_text(entry["share"])))
    lines = [f"{document['records']:,} records", "", *aligned(rows)]
    lines += [
        f"{' and '.join(entry['judges'])}: both accept {entry['both']:,}, only the first {entry['only_first']:,}, "
        f"only the second {entry['only_second']:,}, neither {entry['neither']:,}, no two votes {entry['missing']:,}"
        for entry in document["confusion"]
    ]
    if document["agreement"] is not None:
        lines += [*alone_lines(document["alone"]), *_coefficients(document["agreement"])]
    return "\n".join(lines)


def _coefficients(table: dict[str, Any]) -> list[str]:
    """A line for each coefficient of `agreement_table`, and for Cohen's kappa of every two judges."""
    entries = [(words, table[key]) for key, words in agreement.COEFFICIENTS.items()]
    entries += [(f"Cohen's kappa of {' and '.join(pair['judges'])}", pair) for pair in table["cohen_kappa"]]
    return [f"{words}: {agreement.interval_text(entry)}" for words, entry in entries]


def label_table(source: Path, columns: Sequence[str], *, seed: int = 0) -> dict[str, Any]:
    """For a merged run or a file of records: labels by column, confusion of every two columns, and agreement.

    Raises InputError for fewer than two different columns, and for a column in which no record has a label.
    """
    columns = list(dict.fromkeys(columns))
    if len(columns) < 2:
        raise InputError(f"--column {columns[0]}: only one column", "name two or more to compare")
    cells = ([record.get(column) for column in columns] for record in records(source))
    rows = [[None if value is None else str(value) for value in row] for row in cells]
    table = pd.DataFrame(rows, columns=columns, dtype=object)
    if len(empty := table.columns[table.isna().all()]):
        raise InputError(f"{source}: no record has a label in {empty[0]}", "name a column of its records")
    votes = agreement.make_votes(rows, columns)
    labels = list(votes.categories)
    counted = {
        column: {
            "labels": table[column].value_counts().reindex(labels, fill_value=0).to_dict(),
            "missing": int(table[column].isna().sum()),
        }
        for column in columns
    }
    confused = []
    for a, b in combinations(columns, 2):
        both = pd.crosstab(table[a], table[b]).reindex(labels, columns=labels, fill_value=0)
        missing = len(rows) - int(both.to_numpy().sum())
        confused.append({"columns": [a, b], "counts": both.to_dict("index"), "missing": missing})
    agreed = agreement.agreement_table(votes, seed=seed)
    sizes = {"records": len(rows), "labels": labels}
    return {**sizes, "columns": counted, "confusion": confused, "agreement": agreed}


def render_labels(document: dict[str, Any]) -> str:
    """The comparison as text; the rows of a confusion table are the labels of the first column."""
    labels, columns = document["labels"], document["columns"]
    rows = [[label, *(entry["labels"][label] for entry in columns.values())] for label in labels]
    missing = ["missing", *(entry["missing"] for entry in columns.values())]
    lines = [f"{document['records']:,} records", "", *aligned([["label", *columns], *rows, missing])]
    for entry in document["confusion"]:
        rows = [[label, *counts.values()] for label, counts in entry["counts"].items()]
        between = "rows {}, columns {}".format(*entry["columns"])
        lines += ["", f"{between}; {entry['missing']:,} without two labels", *aligned([["", *labels], *rows])]
    return "\n".join([*lines, "", *_coefficients(document["agreement"])])


SUMMARIES = {"mean_of_factors": "mean of the judges' factors", "ratio_of_means": "ratio of the mean rates"}


def _summaries(before: Floats, after: Floats) -> list[Floats]:
    """Both summaries of rates (…, judges), in the order of SUMMARIES; not finite where a rate after is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return [(before / after).mean(axis=-1), before.mean(axis=-1) / after.mean(axis=-1)]


def audit(
    before: Path,
    after: Path,
    panel: Path | None = None,
    *,
    resamples: int = agreement.RESAMPLES,
    seed: int = 0,
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
    rates: dict[str, dict[str, float]] = {}  # share of failed pairs of each judge
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
    """The models that gave a source's verdicts; if a record does not name a judge's model, the judge's name."""
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
        name: np.quantile(values, agreement.ENDS).tolist() if np.isfinite(values).all() else None
        for name, values in zip(SUMMARIES, _summaries(*rates), strict=True)
    }


def render_audit(document: dict[str, Any]) -> str:
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
