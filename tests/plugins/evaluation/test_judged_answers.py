"""Scores that a judge gave come back by id: means, groups, intervals, and what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation import score as room
from kgqa_hpc.plugins.evaluation.judge_prediction import ASPECTS, write_joined
from kgqa_hpc.plugins.evaluation.score import render
from tests.plugins.evaluation.pairs import write_lines

GROUPS = ["human", "human", "bacteria", "bacteria"]


@pytest.fixture(autouse=True)
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """METEOR is tested elsewhere, and takes seconds to start."""
    monkeypatch.setattr(room, "why_no_captions", lambda: "not here")


def pairs(folder: Path) -> room.Pairs:
    rows: list[dict[str, Any]] = [
        {"id": n, "text": "a b", "question": "What?", "organism_group": group}
        for n, group in enumerate(GROUPS)
    ]
    given = write_lines(folder / "p.jsonl", [{"id": n, "text": "a"} for n in range(4)])
    return room.read_pairs(given, write_lines(folder / "r.jsonl", rows))


def judged(folder: Path, planted: list[int | None]) -> Path:
    """Record n has the planted score in every aspect but fluency, which is one less; None: it was lost."""
    rows = []
    for n, value in enumerate(planted):
        scores = {f"j_{aspect}": value - (aspect == "fluency") for aspect in ASPECTS} if value else {}
        rows.append({"id": str(n), "features": {**scores, "other": 1.0}})
    return write_lines(folder / "judged.jsonl", [*rows, {"id": "stranger", "features": rows[0]["features"]}])


def test_planted_scores_give_their_means_by_aspect_and_group(tmp_path: Path) -> None:
    found = room.score(pairs(tmp_path), judged=judged(tmp_path, [5, 3, 2, 4]), resamples=50)
    assert (found["j_correctness"], found["j_fluency"]) == (3.5, 2.5)
    assert found["j_mean"] == pytest.approx(3.3)
    groups = found["groups"]["organism_group"]
    assert (groups["human"]["j_relevance"], groups["bacteria"]["j_relevance"]) == (4.0, 3.0)
    low, high = found["intervals"]["j_correctness"]
    assert 2 <= low < 3.5 < high <= 5
    assert found["scales"]["j_mean"] == 5


def test_what_was_not_judged_is_in_no_mean_and_told(tmp_path: Path) -> None:
    found = room.score(pairs(tmp_path), judged=judged(tmp_path, [5, 3, None, None]), resamples=0)
    assert found["j_correctness"] == 4.0
    assert found["groups"]["organism_group"]["bacteria"]["j_correctness"] is None
    assert found["not_judged"]["j_correctness"] == 2
    assert "j_correctness: 2 were not judged" in render(found)


def test_a_file_for_the_judge_has_every_text_and_column(tmp_path: Path) -> None:
    both = pairs(tmp_path)
    write_joined(tmp_path / "joined.jsonl", both.rows, both.predictions)
    line = json.loads((tmp_path / "joined.jsonl").read_text().splitlines()[0])
    assert line["id"] == "0"
    assert (line["question"], line["answer"], line["prediction"]) == ("What?", "a b", "a")
    assert line["organism_group"] == "human"
    with pytest.raises(InputError, match="no question"):
        write_joined(tmp_path / "j.jsonl", [{"id": 1, "text": "a"}], ["b"])


def test_a_run_that_judged_something_else_is_refused(tmp_path: Path) -> None:
    other = write_lines(tmp_path / "other.jsonl", [{"id": "x", "features": {}}])
    with pytest.raises(InputError, match="scores none of these references"):
        room.score(pairs(tmp_path), judged=other)
