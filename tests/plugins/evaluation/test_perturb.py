"""A judge's unreliability and its taste for position and length are measured; planted ones are found, no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgqa_hpc import stages
from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation import studies
from kgqa_hpc.plugins.evaluation.judged import retest
from kgqa_hpc.plugins.evaluation.studies import compare_rounds, perturbed, render_retest

PAIRS = 150
# Every answer is "Alpha N one. Omega two."; said twice and turned round it holds words that it does not hold as it is.
LONGER = {"holds": ["two. Alpha", "one. Omega"], "accept": 0.95}
TURNED = {"holds": ["two. Alpha"], "accept": 0.15}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose judge accepts half of the pairs by chance, nearly all long ones and few turned ones."""
    folder = tmp_path_factory.mktemp("judged")
    with (folder / "pairs.jsonl").open("w", encoding="utf-8") as file:
        for n in range(PAIRS):
            pair = {"id": f"i{n}", "question": f"Which is it, {n}?", "answer": f"Alpha {n} one. Omega two."}
            file.write(json.dumps(pair) + "\n")
    document = {
        "anchors": {"kind": "records", "from": "pairs.jsonl"},
        "engine": {"kind": "scripted", "accept": 0.5, "planted": [LONGER, TURNED]},
        "passes": [{"name": "main", "steps": [{"use": "judge", "as": "coin"}]}],
        "dataset": {"z_score": None},
        "runtime": {"shard_size": 200},
    }
    (folder / "run.yaml").write_text(json.dumps(document), encoding="utf-8")
    stages.init(folder / "run.yaml", folder / "run")
    for stage in stages.STAGES:
        if stage.name not in ("import", "report"):
            stage.work(folder / "run", None)
    return folder / "run"


@pytest.fixture(scope="module")
def found(judged: Path) -> dict[str, Any]:
    return studies.retest(
        judged, judged.parent / "again", perturb=["same", "order", "longer"], judges=[], number=PAIRS, seed=1
    )


def test_planted_tastes_for_position_and_length_are_found_with_their_size(found: dict[str, Any]) -> None:
    longer, turned = found["judges"]["coin"]["longer"], found["judges"]["coin"]["order"]
    assert longer["items"] == turned["items"] == PAIRS
    assert longer["shift"]["low"] < 0.45 < longer["shift"]["high"]
    assert turned["shift"]["low"] < -0.35 < turned["shift"]["high"]
    assert longer["p"] < 1e-6
    assert turned["p"] < 1e-6


def test_a_judge_asked_the_same_again_shows_its_chance_and_no_taste(found: dict[str, Any]) -> None:
    same = found["judges"]["coin"]["same"]
    assert same["same"]["low"] < 0.5 < same["same"]["high"]
    assert abs(same["kappa"]) < 0.2
    assert same["shift"]["low"] < 0 < same["shift"]["high"]
    assert same["p"] > 0.05
    assert "coin" in render_retest(found)


def test_asking_again_changes_no_byte_of_the_run_and_resumes(judged: Path, found: dict[str, Any]) -> None:
    before = {path: path.read_bytes() for path in judged.rglob("*") if path.is_file()}
    again = studies.retest(
        judged,
        judged.parent / "again",
        perturb=["same", "order", "longer"],
        judges=["coin"],
        number=PAIRS,
        seed=1,
    )
    assert again == found
    assert {path: path.read_bytes() for path in judged.rglob("*") if path.is_file()} == before


def test_an_unknown_judge_is_refused_with_those_there_are(judged: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no judge 'dice'"):
        studies.retest(judged, tmp_path / "x", perturb=["same"], judges=["dice"], number=5, seed=0)
    with pytest.raises(InputError, match="there are same, order, longer"):
        studies.retest(judged, tmp_path / "x", perturb=["shorter"], judges=[], number=5, seed=0)


def test_a_perturbation_says_nothing_new_and_loses_nothing() -> None:
    record = {"id": "r", "question": "Q?", "answer": "One is it. Two is not. Three.", "options": None}
    same, order, longer = perturbed(record, ["same", "order", "longer"])
    assert [one["id"] for one in (same, order, longer)] == ["r~same", "r~order", "r~longer"]
    assert same["answer"] == record["answer"]
    assert order["answer"] == "Two is not. Three. One is it."
    assert longer["answer"] == f"{record['answer']} {record['answer']}"
    assert order["question"] == longer["question"] == "Q?"


def test_options_and_documents_are_turned_and_the_answer_left_and_one_sentence_has_no_other_order() -> None:
    record = {
        "id": "r",
        "question": "Q?",
        "answer": "B.",
        "options": ["A.", "B.", "C."],
        "documents": [{"id": "1"}],
    }
    (turned,) = perturbed(record, ["order"])
    assert turned["options"] == ["C.", "B.", "A."]
    assert (turned["answer"], turned["documents"]) == ("B.", [{"id": "1"}])
    assert perturbed({"id": "r", "question": "Q?", "answer": "One sentence."}, ["order"]) == []


def test_items_without_both_votes_are_left_out() -> None:
    first = [{"id": str(n), "verdicts": {"j": {"ok": True}} if n else {}} for n in range(3)]
    second = [{"id": f"{n}~same", "verdicts": {"j": {"ok": n == 1}}} for n in range(3)]
    one = compare_rounds(first, second)["j"]["same"]
    assert (one["items"], one["to_reject"], one["to_accept"]) == (2, 1, 0)


def test_the_interval_of_a_shift_covers_the_planted_one_at_its_rate() -> None:
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        first = (rng.random(200) < 0.5).astype(np.int64)
        second = np.where((first == 0) & (rng.random(200) < 0.2), 1, first)
        shift = retest(first, second, resamples=300, seed=seed)["shift"]
        assert shift["low"] is not None
        assert shift["high"] is not None
        covered += shift["low"] <= 0.1 <= shift["high"]
    assert 180 <= covered <= 199, covered  # 95 % of 200 is 190
