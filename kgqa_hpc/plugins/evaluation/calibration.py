"""Judges and panels compared with human ratings: accuracy of each judge and rule, with intervals.

A pair is good when the minimum of its three answer scores is 3 or more (the measure of BioGraphletQA, section 4.3); of
several annotators the median minimum counts. Thresholds and weights, which are fitted to the ratings, are measured on
other items, by ten-fold cross-validation.
"""

import json
from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

import numpy as np

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation import agreement
from kgqa_hpc.plugins.evaluation import judges as judging
from kgqa_hpc.plugins.evaluation.agreement import (
    MISSING,
    Codes,
    Floats,
    Truth,
    interval_text,
    kappa_statistic,
)
from kgqa_hpc.plugins.evaluation.judges import log_odds_weights
from kgqa_hpc.plugins.evaluation.ratings import ACCEPTABLE, ANSWER_CRITERIA, Ratings
from kgqa_hpc.plugins.evaluation.records import Verdicts
from kgqa_hpc.text.plain_text import aligned, plain_line

FOLDS = 10


def good_items(ratings: Ratings) -> dict[str, bool]:
    """Whether each rated item is good. Ratings that lack one of the three answer criteria are not used.

    If the file has none of the three (it uses its own criteria), the minimum is over all its criteria.
    """
    needed = ANSWER_CRITERIA if any(c in ratings.criteria for c in ANSWER_CRITERIA) else ratings.criteria
    lowest = ratings.scores.reindex(columns=list(needed)).dropna().min(axis=1)
    medians = lowest.groupby(level="id", sort=False).median()
    return {str(item): bool(median >= ACCEPTABLE) for item, median in medians.items()}


def calibrate(ratings: Ratings, verdicts: Verdicts, *, width: float = 0.10, seed: int = 0) -> dict[str, Any]:
    """All measures of judges and rules, as plain data. Raises InputError when no matched item is fully rated."""
    good = good_items(ratings)
    rows = [i for i, item in enumerate(verdicts.items) if item in good]
    if not rows:
        raise InputError("no pair with a verdict has all three answer scores", "rate more of this run")
    truth = np.array([good[verdicts.items[i]] for i in rows])
    votes, scores, decided = verdicts.votes[rows], verdicts.scores[rows], verdicts.decided[rows]
    characters = {row.id: len(row.answer) for row in ratings.rows}
    lengths = np.array([characters[verdicts.items[i]] for i in rows], dtype=np.float64)
    judges = {
        name: {
            **agreement.measure(votes[:, j], truth, seed=seed),
            "auc": agreement.auc(scores[:, j], truth, seed=seed),
            "threshold": _threshold(scores[:, j], truth, seed),
            "prefers_longer": agreement.length_preference(votes[:, j], truth, lengths, seed=seed),
        }
        for j, name in enumerate(verdicts.judges)
    }
    # Ratings needed: in the worst case (balanced classes, agreement by chance), and at the agreement of each judge.
    errors = {name: measures["kappa_error"] for name, measures in judges.items()}
    planned = {
        name: {
            "half_width": agreement.kappa_half_width(len(rows), error),
            "needed": agreement.ratings_for_kappa(width, error),
        }
        for name, error in {"": agreement.WORST_KAPPA_ERROR, **errors}.items()
        if error is not None
    }
    return {
        "rated": len(good),
        "calibrated_on": len(rows),
        "matched": {"id": verdicts.by_id, "text": verdicts.by_text, "texts_differ": verdicts.texts_differ},
        "good": int(truth.sum()),
        "judges": judges,
        "decision": agreement.measure(decided, truth, seed=seed) if (decided != MISSING).any() else None,
        "panel": _panel(votes, verdicts.judges, truth, seed),
        "needed": {"ratings": len(rows), "width": width, **planned.pop(""), "judges": planned},
    }


def _threshold(scores: Floats, truth: Truth, seed: int) -> dict[str, Any] | None:
    """The acceptance threshold with the highest kappa; None for a judge with fewer than three different scores."""
    if len(np.unique(scores[~np.isnan(scores)])) < 3:
        return None

    decisions = out_of_fold(
        lambda seen, unseen: _at(scores[unseen], best_threshold(scores[seen], truth[seen])), len(truth), seed
    )
    held_out = agreement.measure(decisions, truth, seed=seed)
    return {"accept_from": best_threshold(scores, truth), **held_out}


def best_threshold(scores: Floats, truth: Truth) -> float:
    """The threshold (accept scores at or above it) with the highest kappa; of equal ones the lowest.

    Infinite where no item has a score, as may be in one of the folds.
    """
    levels = np.unique(scores[~np.isnan(scores)])
    ones = np.ones((1, len(truth)))
    kappas = [float(kappa_statistic(_at(scores, level), truth)(ones)[0]) for level in levels]
    return float(levels[np.argmax(np.nan_to_num(kappas, nan=-np.inf))]) if len(levels) else np.inf


def _at(scores: Floats, level: float) -> Codes:
    return np.where(np.isnan(scores), MISSING, scores >= level).astype(np.int64)


def out_of_fold(decide: Callable[[np.ndarray, np.ndarray], Codes], items: int, seed: int) -> Codes:
    """Decide each item by a rule that was fitted to the other folds.

    `decide(seen, unseen)` fits a rule to the items at the positions `seen` and returns its decisions on the others.
    """
    fold = np.random.default_rng(seed).permutation(items) % min(FOLDS, items)
    decision = np.full(items, MISSING, dtype=np.int64)
    for number in range(int(fold.max()) + 1):
        inside, outside = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        if len(outside):
            decision[inside] = decide(outside, inside)
    return decision


def _panel(votes: Codes, judges: tuple[str, ...], truth: Truth, seed: int) -> dict[str, Any] | None:
    """Measures of rules over several judges and of each judge alone, and the judges' agreement; None for one judge."""
    voting = np.flatnonzero((votes != MISSING).any(axis=0))
    if len(voting) < 2:
        return None
    cast, names = votes[:, voting], tuple(judges[j] for j in voting)
    by_weight = out_of_fold(
        lambda seen, unseen: judging.weighted(cast[unseen], log_odds_weights(cast[seen], truth[seen])),
        len(truth),
        seed,
    )
    decisions = {**judging.rules(cast), "weighted": by_weight}
    decisions |= {f"{name} alone": cast[:, j] for j, name in enumerate(names)}
    measured = {rule: agreement.measure(decision, truth, seed=seed) for rule, decision in decisions.items()}
    kappas = {rule: measures["kappa"]["value"] for rule, measures in measured.items()}
    ranked = sorted((rule for rule in kappas if kappas[rule] is not None), key=lambda rule: -kappas[rule])
    best = ranked[0] if ranked else None
    # The best rule whose decisions differ, and the difference of their kappas on the same resamples.
    second = next((r for r in ranked if not np.array_equal(decisions[r], decisions[ranked[0]])), None)
    gap = None
    if best and second:
        a, b = (kappa_statistic(decisions[rule], truth) for rule in (best, second))
        gap = agreement.estimate(lambda weights: a(weights) - b(weights), len(truth), seed=seed)
    weights = log_odds_weights(cast, truth).tolist()
    return {
        "rules": measured,
        "weights": dict(zip(names, weights, strict=True)),
        "best": best,
        "next": second,
        "gap": gap,
        "decide": decide_block(best, names, weights) if best else None,
        "confusion": judging.confusion(cast, names),
        "alone": judging.decides_alone(cast, names),
        "agreement": agreement.agreement_table(agreement.Votes(cast, names, (False, True)), seed=seed),
    }


def decide_block(rule: str, judges: Sequence[str], weights: Sequence[float]) -> dict[str, Any]:
    """The section `dataset.decide` of a run's configuration for a rule of this module."""
    if rule.endswith(" alone"):
        return {"judges": [rule.removesuffix(" alone")], "rule": "all"}
    if rule in ("all", "majority"):
        return {"judges": list(judges), "rule": rule}
    if rule == "weighted":
        rounded = {judge: round(weight, 3) for judge, weight in zip(judges, weights, strict=True)}
        return {"judges": list(judges), "rule": rule, "weights": rounded}
    return {"judges": list(judges), "rule": "at_least", "at_least": int(rule.split()[0])}


def render(document: dict[str, Any]) -> str:
    """The result of `calibrate` as text."""
    matched = document["matched"]
    lines = [
        f"{document['calibrated_on']:,} of {document['rated']:,} rated pairs have a verdict "
        f"(matched by id {matched['id']:,}, by text {matched['text']:,}); people find {document['good']:,} good "
        "(minimum of the three answer scores >= 3)"
    ]
    if matched["texts_differ"]:
        lines.append(f"warning: {matched['texts_differ']:,} have the id of a rated pair but another text")
    decision = {"(the run's decision)": document["decision"]} if document["decision"] else {}
    lines += ["", *_measured("judge", {**document["judges"], **decision})]
    for name, measures in document["judges"].items():
        if threshold := measures["threshold"]:
            best = f"best threshold is a score of {threshold['accept_from']:g} or more"
            if (threshold["kappa"]["value"] or 0.0) <= 0:
                best = "no threshold of its score agrees with people beyond chance"
            unseen = f"kappa on items it was not fitted to {interval_text(threshold['kappa'])}"
            lines.append(f"{plain_line(name)}: {best}; {unseen}")
        longer = measures["prefers_longer"]
        if longer["judge"]["value"] is not None:
            lines.append(
                f"{plain_line(name)}: an accepted answer is longer than a rejected one with chance "
                f"{interval_text(longer['judge'])}; a good one than a bad one {interval_text(longer['people'])}"
            )
    if panel := document["panel"]:
        lines += ["", *_measured("rule", panel["rules"])]
        if panel["best"]:
            block = json.dumps(panel["decide"], ensure_ascii=True)
            lines += ["", _recommendation(panel), f"In the run's configuration: dataset: {{decide: {block}}}"]
        keys = {"alpha": "krippendorff_alpha", "Fleiss' kappa": "fleiss_kappa", "AC1": "gwet_ac1"}
        texts = (f"{label} {interval_text(panel['agreement'][key])}" for label, key in keys.items())
        lines += [*judging.alone_lines(panel["alone"]), f"agreement of the judges: {', '.join(texts)}"]
    need = document["needed"]
    lines += [
        "",
        f"{need['ratings']} ratings give kappa ± {need['half_width']:.2f}; ± {need['width']:.2f} needs about "
        f"{ceil(need['needed'] / 10) * 10} (95 %, planned for balanced shares).",
    ]
    lines += [
        f"At the agreement of {plain_line(name)}: ± {requirement['half_width']:.2f} now, "
        f"± {need['width']:.2f} with {requirement['needed']}."
        for name, requirement in need["judges"].items()
    ]
    return "\n".join(lines)


def _measured(title: str, rows: dict[str, dict[str, Any]]) -> list[str]:
    """A table of measures against the truth: a row for each judge or rule, with AUC if any has it."""
    keys = ["precision", "recall", "kappa", *(["auc"] if any("auc" in row for row in rows.values()) else [])]
    cells: list[tuple[object, ...]] = [(title, "n", *keys, "without a vote")]
    for name, measures in rows.items():
        texts = (interval_text(measures[key]) if key in measures else "" for key in keys)
        cells.append((name, measures["items"], *texts, measures["undecided"] or ""))
    return aligned(cells)


def _recommendation(panel: dict[str, Any]) -> str:
    best = plain_line(panel["best"])
    if panel["next"] is None:
        unknown = [name for name, rule in panel["rules"].items() if rule["kappa"]["value"] is None]
        if len(unknown) == len(panel["rules"]) - 1:
            return f"No rule is recommended: kappa is known for {best} alone. More ratings are needed."
        caveat = f"kappa of {plain_line(', '.join(unknown))} is unknown; " if unknown else ""
        return f"Best rule: {best}; {caveat}the others decide the same."
    gap = panel["gap"]
    noise = gap["low"] is None or gap["low"] <= 0
    verdict = "which is noise at this number of ratings" if noise else "more than noise"
    return f"Best rule: {best}; its kappa is {interval_text(gap)} above that of {plain_line(panel['next'])}, {verdict}."
