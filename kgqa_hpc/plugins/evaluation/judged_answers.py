"""Files of predictions and references for a judge, and the scores it gave them (step `judge_prediction`).

The judge is a run of its own, over a file in which each reference has its prediction beside it; its scores come back
by id.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.bootstrap import Floats
from kgqa_hpc.plugins.evaluation.judge_prediction import ASPECTS
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.store.atomic import write_file

MEAN = "mean"


def write_joined(path: Path, rows: Sequence[dict[str, Any]], predictions: Sequence[str]) -> None:
    """JSON lines with id, question, answer (the reference's text), prediction and the reference's other columns.

    Raises InputError for a reference without a question.
    """
    lines = []
    for row, prediction in zip(rows, predictions, strict=True):
        if not isinstance(row.get("question"), str):
            raise InputError(
                f"reference {str(row['id'])!r}: no question",
                "a judge must see what was asked: add it to the references",
            )
        joined = {**row, "id": str(row["id"]), "answer": row["text"], "prediction": prediction}
        lines.append(json.dumps(joined, ensure_ascii=False) + "\n")
    write_file(path, "".join(lines).encode())


def read_judged(source: Path, ids: Sequence[str]) -> dict[str, Floats]:
    """For each judge of a run its scores by aspect and their mean, (ids,) each; NaN for a missing score.

    Raises InputError when no record is one of the ids with scores.
    """
    row_of = {item_id: at for at, item_id in enumerate(ids)}
    by_column: dict[str, Floats] = {}
    for record in records(source):
        at, features = row_of.get(record["id"]), record.get("features") or {}
        for judge in _judges(features) if at is not None else ():
            scores = {aspect: float(features[f"{judge}_{aspect}"]) for aspect in ASPECTS}
            for name, score in {**scores, MEAN: sum(scores.values()) / len(scores)}.items():
                by_column.setdefault(f"{judge}_{name}", np.full(len(ids), np.nan))[at] = score
    if not by_column:
        raise InputError(
            f"{source}: scores none of these references",
            "judge the file that --joined writes (configs/judge_predictions.yaml)",
        )
    return by_column


def _judges(features: dict[str, Any]) -> list[str]:
    """The steps that scored all aspects."""
    ending = f"_{ASPECTS[0]}"
    names = [name.removesuffix(ending) for name in features if name.endswith(ending)]
    return [name for name in names if all(f"{name}_{aspect}" in features for aspect in ASPECTS)]
