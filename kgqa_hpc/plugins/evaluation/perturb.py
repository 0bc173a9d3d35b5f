"""Perturbed copies of pairs, to be judged again: unchanged (test-retest), in another order, and longer.

Order is Zheng et al.'s (2023, "Judging LLM-as-a-judge", section 3.3) position: options or documents in another order;
without any, the answer's sentences. Length is their repetitive attack: the answer said twice, nothing new in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kgqa_hpc.plugins.evaluation.judged import retest
from kgqa_hpc.plugins.evaluation.verdicts import opinion
from kgqa_hpc.text.plain_text import aligned

Fields = Mapping[str, Any]
MARK = "~"  # between a record's id and the perturbation
LISTS = ("options", "documents")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")


def _order(record: Fields) -> dict[str, Any] | None:
    lists = {name: list(reversed(record[name])) for name in LISTS if len(record.get(name) or ()) > 1}
    if lists:
        return {**record, **lists}
    sentences = _SENTENCE_END.split(record["answer"])
    return {**record, "answer": " ".join([*sentences[1:], sentences[0]])} if len(sentences) > 1 else None


PERTURBATIONS: dict[str, Callable[[Fields], dict[str, Any] | None]] = {
    "same": dict,
    "order": _order,
    "longer": lambda record: {**record, "answer": f"{record['answer']} {record['answer']}"},
}


def perturbed(record: Fields, names: list[str]) -> list[dict[str, Any]]:
    """The record under each perturbation, with a marked id; those without effect (one sentence) are left out."""
    variants = ((name, PERTURBATIONS[name](record)) for name in names)
    return [
        {**variant, "id": f"{record['id']}{MARK}{name}"} for name, variant in variants if variant is not None
    ]


def compare_rounds(
    first: list[dict[str, Any]], second: list[dict[str, Any]], *, seed: int = 0
) -> dict[str, Any]:
    """By judge and perturbation, the second round's verdicts on `ID~NAME` compared with the first's on `ID`.

    Both are dataset records with `verdicts`. An item that lacks one of the two votes is left out.
    """
    before = {record["id"]: record["verdicts"] for record in first}
    pairs: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for record in second:
        item, _, name = record["id"].rpartition(MARK)
        for judge, verdict in record["verdicts"].items():
            votes = opinion(before[item].get(judge)).code, opinion(verdict).code
            pairs.setdefault(judge, {}).setdefault(name, []).append(votes)
    return {
        judge: {name: retest(*np.array(votes).T, seed=seed) for name, votes in by_name.items()}
        for judge, by_name in pairs.items()
    }


def render(document: dict[str, Any]) -> str:
    """The comparison as text: a line for each judge and perturbation."""
    rows: list[tuple[object, ...]] = [
        ("judge", "asked again", "n", "same verdict", "kappa", "to accept", "to reject", "p", "acceptance")
    ]
    for judge, by_name in document["judges"].items():
        for name, entry in by_name.items():
            kappa = "-" if entry["kappa"] is None else f"{entry['kappa']:.2f}"
            flips = entry["to_accept"], entry["to_reject"], f"{entry['p']:.2g}"
            shift = _percent(entry["shift"], "+", "points")
            rows.append((judge, name, entry["items"], _percent(entry["same"]), kappa, *flips, shift))
    return "\n".join([*aligned(rows), "", document["reading"]])


def _percent(estimate: dict[str, Any], sign: str = "", unit: str = "%") -> str:
    if estimate["value"] is None or estimate["low"] is None:
        return "undefined"
    value, low, high = (f"{100 * estimate[key]:{sign}.1f}" for key in ("value", "low", "high"))
    return f"{value} {unit} [{low}, {high}]"


READING = (
    "same: what flips is the judge's own unreliability. order, longer: a shift whose interval leaves out 0 is a taste "
    "for position or length, p being McNemar's exact test; compare it with the flips of `same`."
)
