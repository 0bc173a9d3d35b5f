"""Judges measured against the truth and against each other.

Measures of decisions against the truth are precision, recall, kappa and AUC. Shares have Wilson's (1927) interval,
kappa and AUC the bootstrap's over items; `sampling` of a function is the bootstrap's `resamples` and `seed`.

A verdict is 1 (holds), 0 (does not) or -1 (missing). A rule of a panel decides only items that every judge has voted
on; an item with a missing verdict stays -1 and is counted. Tables compare a run's judges, or columns of labels that
name the same property (the type of a question by rule and by a judge), without human ratings.
"""

from collections.abc import Sequence
from itertools import combinations
from math import ceil, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kgqa_hpc import intervals
from kgqa_hpc.errors import InputError
from kgqa_hpc.intervals import Z95
from kgqa_hpc.plugins.evaluation import agreement
from kgqa_hpc.plugins.evaluation.agreement import MISSING, Codes, Floats, Statistic, Votes
from kgqa_hpc.plugins.evaluation.records import read_votes, records
from kgqa_hpc.text.plain_text import aligned, plain_line

LEAST = 0.01
Truth = NDArray[np.bool_]


def measure(decision: Codes, truth: Truth, **sampling: int) -> dict[str, Any]:
    """All measures of decisions (1, 0, -1) against the truth, both (items,), as plain data."""
    yes, no = decision == 1, decision == 0
    cells = {
        "true_accept": int((yes & truth).sum()),
        "false_accept": int((yes & ~truth).sum()),
        "false_reject": int((no & truth).sum()),
        "true_reject": int((no & ~truth).sum()),
    }
    right, wrong, missed, refused = cells.values()
    items, good, accepted = sum(cells.values()), right + missed, right + wrong
    chance = (good * accepted + (items - good) * (items - accepted)) / items**2 if items else 1.0
    return {
        "items": items,
        "undecided": int((decision == MISSING).sum()),
        "confusion": cells,
        "precision": wilson(right, accepted),
        "recall": wilson(right, good),
        "specificity": wilson(refused, refused + wrong),
        "accuracy": wilson(right + refused, items),
        "kappa": agreement.estimate(kappa_statistic(decision, truth), len(truth), **sampling),
        "kappa_error": kappa_error((right + refused) / items, chance) if chance < 1 else None,
    }


def wilson(part: int, whole: int) -> dict[str, Any]:
    """A share with Wilson's score interval; undefined for 0 of 0."""
    return agreement.interval(*intervals.wilson(part, whole))


def kappa_statistic(decision: Codes, truth: Truth) -> Statistic:
    """Cohen's kappa of decisions and truth over weighted items."""
    return agreement.cohen_statistic(decision, truth.astype(np.int64), 2)


def kappa_error(observed: float, chance: float) -> float:
    """The standard error of kappa for one rating; divide by the root of their number (Cohen 1960). `chance` < 1."""
    return sqrt(observed * (1 - observed)) / (1 - chance)


# Two balanced judges that agree by chance only: the widest interval to plan for with shares near 1/2.
WORST_KAPPA_ERROR = kappa_error(0.5, 0.5)


def kappa_half_width(ratings: int, error: float = WORST_KAPPA_ERROR) -> float:
    """Half of kappa's 95 % interval from so many ratings."""
    return Z95 * error / sqrt(ratings) if ratings else float("inf")


def ratings_for_kappa(half_width: float, error: float = WORST_KAPPA_ERROR) -> int:
    """Ratings needed so that kappa's 95 % interval is at most ± `half_width`."""
    return ceil((Z95 * error / half_width) ** 2)


def auc(scores: Floats, truth: Truth, **sampling: int) -> dict[str, Any]:
    """Probability that a good item has a higher score than a bad one, ties counted half; NaN scores are left out.

    Undefined when all known items are good or all are bad.
    """
    rows = np.flatnonzero(~np.isnan(scores))
    levels, ranks = np.unique(scores[rows], return_inverse=True)
    good, bad = np.zeros((2, len(scores), len(levels)))
    good[rows, ranks] = truth[rows]
    bad[rows, ranks] = ~truth[rows]

    def statistic(weights: Floats) -> Floats:
        above, below = weights @ good, weights @ bad
        wins = (above * (np.cumsum(below, axis=1) - below / 2)).sum(axis=1)
        return agreement.ratio(wins, above.sum(axis=1) * below.sum(axis=1))

    return agreement.estimate(statistic, len(scores), **sampling)


def length_preference(verdicts: Codes, truth: Truth, lengths: Floats, **sampling: int) -> dict[str, Any]:
    """Probability that an accepted answer is longer than a rejected one, and that a good one is longer than a bad one.

    For one judge, over the items it has a verdict on; `lengths` (items,) are of their answers. 0.5 is no
    preference; a judge well above people accepts answers for their length.
    """
    judged = verdicts != MISSING
    sides = {"judge": verdicts[judged] == 1, "people": truth[judged]}
    return {name: auc(lengths[judged], side, **sampling) for name, side in sides.items()}


def weighted(verdicts: Codes, weights: Floats) -> Codes:
    """Accept where the `weights` (judges,) of those that accept are half of all or more, as a run decides.

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
    """A line for each coefficient of `agreement_table`, and for Cohen's kappa of every two."""
    entries = [(words, table[key]) for key, words in agreement.COEFFICIENTS.items()]
    entries += [(f"Cohen's kappa of {' and '.join(pair['judges'])}", pair) for pair in table["cohen_kappa"]]
    return [f"{words}: {agreement.interval_text(entry)}" for words, entry in entries]


def label_table(source: Path, columns: Sequence[str], *, seed: int = 0) -> dict[str, Any]:
    """For a merged run or a file of records: labels by column, confusion of every two columns, and agreement.

    Raises InputError for fewer than two different columns, and for one that no record has a label in.
    """
    columns = list(dict.fromkeys(columns))
    if len(columns) < 2:
        raise InputError(f"--column {columns[0]}: one column", "name two or more that are to be compared")
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
