"""What people's ratings say: means, shares, distributions, accepted against rejected, and agreement.

The published figures are those of BioGraphletQA, sections 4.3 and Appendix G. A mean is over ratings; minimum
and average are over the three criteria of the answer, for ratings that have all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kgqa_hpc.evaluate.agreement import agreement_table, make_votes
from kgqa_hpc.evaluate.bootstrap import Floats, estimate, mean_of
from kgqa_hpc.evaluate.compare import cliffs_delta, mann_whitney
from kgqa_hpc.evaluate.ratings import Rating, Ratings
from kgqa_hpc.evaluate.scales import ACCEPTABLE, ANSWER_CRITERIA, HIGHEST, LOWEST

LEVELS = tuple(range(LOWEST, HIGHEST + 1))


def analyse(ratings: Ratings, model: Ratings | None = None, *, seed: int = 0) -> dict[str, Any]:
    """The whole analysis as plain data.

    `model` are ratings by a language model: one more annotator in the agreement, never in a mean.
    `accepted` and `rejected` are None where no rating says which its item was.
    """
    groups = rating_groups(ratings)
    criteria = ratings.criteria
    answer = {name: answer_scores(rows, seed=seed) for name, rows in groups.items()}
    return {
        "items": len(ratings.items),
        "ratings": len(ratings.rows),
        "rated": len(ratings.rated),
        "not_rated": len(ratings.rows) - len(ratings.rated),
        "not_qualified": sum(row.not_qualified for row in ratings.rows),
        "annotators": {name: sum(r.annotator == name for r in ratings.rated) for name in ratings.annotators},
        "criteria": list(criteria),
        **{name: means(groups[name], criteria) if name in groups else None for name in GROUPS},
        "share_3": shares(groups["all"], criteria),
        "by_group": {name: _details(rows, criteria, seed) for name, rows in groups.items()},
        "answer": {name: answer.get(name) for name in GROUPS},
        "accepted_against_rejected": _difference(groups, criteria),
        "agreement": _agreement(ratings, model, seed),
        "notes": _notes(answer["all"]),
    }


GROUPS = ("all", "accepted", "rejected")


def rating_groups(ratings: Ratings) -> dict[str, tuple[Rating, ...]]:
    """The rated rows: all, and accepted and rejected where the ratings tell."""
    rows = ratings.rated
    groups = {"all": rows}
    if any(row.accepted is not None for row in ratings.rows):
        groups["accepted"] = tuple(row for row in rows if row.accepted is True)
        groups["rejected"] = tuple(row for row in rows if row.accepted is False)
    return groups


def scores_of(rows: Sequence[Rating], criterion: str) -> Floats:
    """The scores of one criterion, without gaps."""
    return np.array([row.scores[criterion] for row in rows if criterion in row.scores], dtype=np.float64)


def means(rows: Sequence[Rating], criteria: Sequence[str]) -> dict[str, float | None]:
    """The mean of each criterion, None without a score."""
    return {name: _mean(scores_of(rows, name)) for name in criteria}


def shares(rows: Sequence[Rating], criteria: Sequence[str]) -> dict[str, float | None]:
    """The share (0 to 1) of scores that are 3 or more, for each criterion."""
    return {name: _mean(scores_of(rows, name) >= ACCEPTABLE) for name in criteria}


def answer_triples(rows: Sequence[Rating]) -> Floats:
    """The three answer scores of the ratings that have all three, (n, 3)."""
    whole = [
        [row.scores[c] for c in ANSWER_CRITERIA] for row in rows if row.scores.keys() >= {*ANSWER_CRITERIA}
    ]
    return np.array(whole, dtype=np.float64).reshape(-1, len(ANSWER_CRITERIA))


def answer_scores(rows: Sequence[Rating], *, seed: int = 0) -> dict[str, Any]:
    """Minimum, average and rounded average over the answer's three criteria (Figure 12)."""
    triples = answer_triples(rows)
    size = len(triples)
    lowest = triples.min(axis=1) if size else np.empty(0)
    average = triples.mean(axis=1) if size else np.empty(0)
    kinds = {"minimum": lowest, "average": average, "rounded_average": np.rint(average)}
    good = (lowest >= ACCEPTABLE).astype(np.float64)
    return {
        "ratings": size,
        "mean": {kind: _mean(values) for kind, values in kinds.items()},
        "count_3": {kind: int((values >= ACCEPTABLE).sum()) for kind, values in kinds.items()},
        "share_3": {kind: _mean(values >= ACCEPTABLE) for kind, values in kinds.items()},
        "share_3_minimum_interval": estimate(mean_of(good), size, seed=seed).to_dict(),
        "at_least": {kind: {str(k): _mean(values >= k) for k in LEVELS} for kind, values in kinds.items()},
    }


def _details(rows: Sequence[Rating], criteria: Sequence[str], seed: int) -> dict[str, Any]:
    found = {}
    for name in criteria:
        values = scores_of(rows, name)
        share = (values >= ACCEPTABLE).astype(np.float64)
        found[name] = {
            "ratings": len(values),
            "mean": estimate(mean_of(values), len(values), seed=seed).to_dict(),
            "sd": float(values.std()) if len(values) else None,
            "minimum": float(values.min()) if len(values) else None,
            "share_3": estimate(mean_of(share), len(values), seed=seed).to_dict(),
            "distribution": {str(k): int((np.rint(values) == k).sum()) for k in LEVELS},
        }
    return {"rated": len(rows), "criteria": found, "weighted_mean": _weighted(rows, criteria)}


def _weighted(rows: Sequence[Rating], criteria: Sequence[str]) -> dict[str, float] | None:
    """Means for the whole dataset, each rating standing for `weight` records, where a key gives weights."""
    if not rows or not all(row.extra.get("weight") for row in rows):
        return None
    found = {}
    for name in criteria:
        pairs = [(float(row.extra["weight"]), row.scores[name]) for row in rows if name in row.scores]
        if pairs:
            found[name] = sum(w * s for w, s in pairs) / sum(w for w, _ in pairs)
    return found


def _difference(groups: dict[str, tuple[Rating, ...]], criteria: Sequence[str]) -> dict[str, Any] | None:
    """Mann-Whitney and Cliff's delta of accepted against rejected, for each criterion and the minimum."""
    if not groups.get("accepted") or not groups.get("rejected"):
        return None
    samples = {name: [scores_of(groups[side], name) for side in GROUPS[1:]] for name in criteria}
    triples = [answer_triples(groups[side]) for side in GROUPS[1:]]
    samples["minimum of the answer"] = [one.min(axis=1) if len(one) else np.empty(0) for one in triples]
    found = {}
    for name, (accepted, rejected) in samples.items():
        if len(accepted) and len(rejected):
            u, p = mann_whitney(accepted, rejected)
            found[name] = {"u": u, "p": p, "cliffs_delta": cliffs_delta(accepted, rejected)}
    return found


def _agreement(ratings: Ratings, model: Ratings | None, seed: int) -> dict[str, Any] | None:
    """Agreement between annotators on each criterion, ordinal; None with one annotator."""
    taken = set(ratings.annotators)
    models = [
        replace(row, annotator=f"{row.annotator} (model)") if row.annotator in taken else row
        for row in (model.rated if model else ())
    ]
    rows = [*ratings.rated, *models]
    judges = tuple(dict.fromkeys(row.annotator for row in rows))
    if len(judges) < 2:
        return None
    by_item: dict[str, dict[str, Rating]] = {}
    for row in rows:
        by_item.setdefault(row.id, {})[row.annotator] = row
    found = {}
    for name in ratings.criteria:
        table = [[_said(item.get(judge), name) for judge in judges] for item in by_item.values()]
        values = sorted({*LEVELS, *(v for line in table for v in line if v is not None)})
        found[name] = agreement_table(make_votes(table, judges, values), "ordinal", seed=seed)
    return found


def _said(row: Rating | None, criterion: str) -> float | None:
    return row.scores.get(criterion) if row else None


def _notes(answer: dict[str, Any]) -> list[str]:
    if not answer["ratings"]:
        return []
    size, count = answer["ratings"], answer["count_3"]
    rounded, plain = count["rounded_average"], count["average"]
    note = (
        f"Average of the three answer scores >= 3: {plain} of {size} ({100 * plain / size:.2f} %), and "
        f"{rounded} of {size} ({100 * rounded / size:.2f} %) when each average is rounded to a whole number "
        "first. The published 94.4 % is of rounded averages: 50 of 53, which is 94.34 %; unrounded they are "
        "47 of 53, 88.68 %."
    )
    return [note]


def _mean(values: Any) -> float | None:
    return float(np.mean(values)) if len(values) else None
