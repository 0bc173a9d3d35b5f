"""A judge's five scores of a prediction reach the record, and a table by group."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from kgqa_hpc import stages
from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.engine import EngineInfo, Response
from kgqa_hpc.plugins.evaluation.judge_prediction import ASPECTS, write_joined
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.plugins.evaluation.score import read_pairs, score
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Reject, Retry, Step
from tests.plugins.evaluation.pairs import write_lines

StopAnswer = Callable[[str], Response]
SCORES = dict(zip(ASPECTS, (5, 4, 3, 2, 0), strict=True))


@pytest.fixture(autouse=True)
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """METEOR is tested elsewhere, and takes seconds to start."""
    monkeypatch.setattr("kgqa_hpc.plugins.evaluation.score.why_no_captions", lambda: "not here")


@pytest.fixture
def step() -> Step:
    data = {
        "anchors": {"kind": "records", "from": "joined.jsonl"},
        "engine": {"kind": "scripted"},
        "passes": [{"name": "main", "steps": [{"use": "judge_prediction", "as": "a"}]}],
    }
    return build_chain(parse_config(data, "the test"), "main", EngineInfo("scripted", "1", "scripted-1"))[0]


def item(prediction: str | None) -> Item:
    made = Item(Anchor("r", "records", "all", data={"record": {"id": "r"}}))
    made.output = {"question": "What does it do?", "answer": "It carries copper."}
    if prediction is not None:
        made.output["prediction"] = prediction
    return made


def test_the_judge_sees_all_three_texts_and_its_scores_are_features(step: Step, stop: StopAnswer) -> None:
    judged = item("It carries iron.")
    seen = step.request(judged, 0, 1).messages[-1]["content"]
    for text in ("What does it do?", "It carries copper.", "It carries iron."):
        assert text in seen
    assert isinstance(step.take(judged, stop(json.dumps({"reasoning": "x", **SCORES})), 0), Done)
    assert judged.features == {f"a_{aspect}": float(score) for aspect, score in SCORES.items()}


@pytest.mark.parametrize("wrong", [-1, 6, True, 2.5, "3"])
def test_what_is_no_score_from_0_to_5_is_asked_again(step: Step, stop: StopAnswer, wrong: object) -> None:
    said = json.dumps({"reasoning": "x", **SCORES, "relevance": wrong})
    assert isinstance(step.take(item("It."), stop(said), 0), Retry)


def test_an_empty_prediction_scores_nothing_unasked_and_none_at_all_is_rejected(step: Step) -> None:
    empty, none = item(""), item(None)
    assert not step.asks_about(empty)
    assert isinstance(step.run(empty), Done)
    assert set(empty.features.values()) == {0.0}
    assert step.run(none) == Reject("a: no prediction")


def test_two_files_are_judged_by_a_run_and_come_back_as_metrics_of_each_group(tmp_path: Path) -> None:
    wanted = write_lines(
        tmp_path / "ref.jsonl",
        [
            {
                "id": f"r{n}",
                "question": "What?",
                "answer": "It carries copper.",
                "taxonomy": ["human", "mammals"],
            }
            for n in range(12)
        ],
    )
    given = write_lines(tmp_path / "pred.jsonl", [{"id": f"r{n}", "text": f"It {n}."} for n in range(12)])
    pairs = read_pairs(given, wanted)
    write_joined(tmp_path / "joined.jsonl", pairs.rows, pairs.predictions)
    config = {
        "anchors": {"kind": "records", "from": "joined.jsonl"},
        "engine": {"kind": "scripted"},
        "passes": [{"name": "main", "steps": ["judge_prediction"]}],
        "dataset": {"z_score": None},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    stages.all_stages(tmp_path / "run.yaml", tmp_path / "run")
    found = score(pairs, judged=tmp_path / "run", resamples=20)
    for aspect in ASPECTS:
        name = f"judge_prediction_{aspect}"
        values = [record[name] for record in records(tmp_path / "run")]
        assert len(values) == 12
        assert found[name] == pytest.approx(sum(values) / 12)
        assert found["groups"]["taxonomy"]["mammals"][name] == found[name]
