"""Ratings of another model's answers by a judge: five aspects from 0 to 5 (QAProt, appendix, Figure 8).

The judge is a run of its own, over the file that `kgqa score PREDICTIONS REFERENCES --joined FILE` writes: records with
question, answer (the reference) and `prediction`. `kgqa score … --judged RUN` reads its scores back by id and reports
their means beside the other metrics.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.columns import Column
from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.agreement import Floats
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.prompts.safe_text import TEXT_LENGTH, clean_text
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.pair import PAIR, pair_variables
from kgqa_hpc.steps.step import Done, Outcome, Reject, Retry, Step
from kgqa_hpc.store.atomic import write_file

ASPECTS = ("correctness", "completeness", "conciseness", "relevance", "fluency")
BEST = 5


class JudgePrediction(Step):
    """Features `NAME_correctness` and so on, NAME being the step's; an empty prediction has 0 in all, unasked."""

    name = "judge_prediction"
    default_prompt = "judge_prediction"
    answer = dict.fromkeys(ASPECTS, "integer")
    adds = "column"
    needs = PAIR

    def asks_about(self, item: Item) -> bool:
        return bool(item.output.get("prediction"))

    def compute(self, item: Item) -> Outcome:
        """Score an empty or missing prediction with 0, without a request."""
        if item.output.get("prediction") is None:
            return Reject(f"{self.label}: no prediction")
        return self._scored(dict.fromkeys(ASPECTS, 0))

    def variables(self, item: Item) -> dict[str, Any]:
        prediction = clean_text(item.output.get("prediction") or "", TEXT_LENGTH)
        return {**pair_variables(item), "prediction": prediction}

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        for aspect in ASPECTS:
            if not 0 <= answer[aspect] <= BEST:
                return Retry(f"not_allowed:{aspect}", lost_as="invalid")
        return self._scored(answer)

    def _scored(self, scores: dict[str, Any]) -> Outcome:
        return Done(**{f"{self.label}_{aspect}": float(scores[aspect]) for aspect in ASPECTS})

    @classmethod
    def columns_for(cls, settings: StepSettings) -> tuple[Column, ...]:
        text = f"{{}} of the prediction, 0 to {BEST}."
        return tuple(
            Column(f"{settings.label}_{aspect}", "double", text.format(aspect.capitalize()), filterable=True)
            for aspect in ASPECTS
        )


def write_joined(path: Path, rows: Sequence[dict[str, Any]], predictions: Sequence[str]) -> None:
    """JSON lines with id, question, answer (the reference's text), prediction and the reference's other columns.

    Raises InputError for a reference without a question.
    """
    lines = []
    for row, prediction in zip(rows, predictions, strict=True):
        if not isinstance(row.get("question"), str):
            problem = f"reference {str(row['id'])!r}: no question"
            raise InputError(problem, "a judge must see what was asked: add it to the references")
        joined = {**row, "id": str(row["id"]), "answer": row["text"], "prediction": prediction}
        lines.append(json.dumps(joined, ensure_ascii=False) + "\n")
    write_file(path, "".join(lines).encode())


def read_judged(source: Path, ids: Sequence[str]) -> dict[str, Floats]:
    """For each judge of a run its scores by aspect and their mean, (ids,) each; NaN for a missing score.

    Raises InputError when no record is one of the ids with scores.
    """
    row_of = {item_id: row for row, item_id in enumerate(ids)}
    by_column: dict[str, Floats] = {}
    for record in records(source):
        row, features = row_of.get(record["id"]), record.get("features") or {}
        judges = [name.removesuffix(f"_{ASPECTS[0]}") for name in features if name.endswith(f"_{ASPECTS[0]}")]
        for judge in judges if row is not None else ():
            if all(f"{judge}_{aspect}" in features for aspect in ASPECTS):
                scores = {aspect: float(features[f"{judge}_{aspect}"]) for aspect in ASPECTS}
                for name, score in {**scores, "mean": sum(scores.values()) / len(scores)}.items():
                    by_column.setdefault(f"{judge}_{name}", np.full(len(ids), np.nan))[row] = score
    if not by_column:
        problem = f"{source}: scores none of these references"
        raise InputError(problem, "judge the file that --joined writes (configs/judge_predictions.yaml)")
    return by_column
