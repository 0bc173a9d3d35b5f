"""Verdicts of a run or a file are found for the rated pairs, and what holds none is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.records import opinion, read_verdicts
from kgqa_hpc.steps.judge import Judge
from kgqa_hpc.steps.step import Step
from tests.plugins.evaluation.pairs import rated, write_lines

FIELDS = st.sampled_from(["valid_question", "original_answer_valid", "novelty", "why", "score"])
VALUES = st.booleans() | st.text(max_size=3) | st.integers(0, 5)


@given(st.dictionaries(FIELDS, VALUES), st.booleans(), st.booleans())
def test_a_verdict_counts_in_a_panel_and_a_calibration_as_in_the_run(
    verdict: dict[str, Any], question: bool, answer: bool
) -> None:
    verdict |= {"valid_question": question, "original_answer_valid": answer}
    assert opinion(verdict).vote is (Judge.objection(verdict) is None)
    assert opinion(verdict).vote is (Step.objection(verdict) is None)


def test_the_objection_to_a_boolean_of_ones_own_names_it() -> None:
    verdict = {"valid_question": True, "original_answer_valid": True, "novelty": False}
    assert Judge.objection(verdict) == "novelty is false"


def test_a_feature_may_stand_for_a_judge(tmp_path: Path) -> None:
    rows = [{"id": f"i{i}", "features": {"quality": float(i), "other": 1.0}} for i in range(4)]
    source = write_lines(tmp_path / "v.jsonl", rows)
    found = read_verdicts(rated([4.0] * 4), [source], features=["quality"])
    assert found.judges == ("quality",)
    assert found.scores[:, 0].tolist() == [0, 1, 2, 3]


def test_verdicts_match_by_id_else_by_text(tmp_path: Path) -> None:
    source = write_lines(
        tmp_path / "v.jsonl",
        [
            {"id": "i0", "question": "q 0", "answer": "a 0", "verdicts": {"j": {"ok": True, "why": "x"}}},
            {"id": "other", "question": " q  1", "answer": "a 1\n", "verdicts": {"j": {"ok": False}}},
            {"id": "i2", "question": "changed", "answer": "a 2", "verdicts": {"j": {"ok": True}}},
            {"id": "stranger", "question": "?", "answer": "!", "verdicts": {"j": {"ok": True}}},
            {"id": "i3", "verdicts": {}},
        ],
    )
    found = read_verdicts(rated([4.0] * 4), [source])
    assert found.items == ("i0", "i1", "i2", "i3")
    assert found.votes[:, 0].tolist() == [1, 0, 1, -1]
    assert (found.by_id, found.by_text, found.texts_differ) == (3, 1, 1)


def test_judges_of_two_sources_keep_apart(tmp_path: Path) -> None:
    for name, vote in (("one", True), ("two", False)):
        write_lines(tmp_path / f"{name}.jsonl", [{"id": "i0", "verdicts": {"judge": {"ok": vote}}}])
    found = read_verdicts(rated([4.0]), [tmp_path / "one.jsonl", tmp_path / "two.jsonl"])
    assert found.judges == ("one/judge", "two/judge")
    assert found.votes.tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("verdict", "vote", "score"),
    [
        ({"a": True, "b": False, "why": "x"}, False, 0.5),
        ({"a": True}, True, 1.0),
        ({"score": 4, "fine": True}, True, 4.0),
        ({"one": 1, "two": 2.0}, None, 1.5),
        ({"why": "x"}, None, None),
        (True, True, 1.0),
        (3.5, None, 3.5),
    ],
)
def test_booleans_are_a_vote_and_numbers_a_score(
    verdict: Any, vote: bool | None, score: float | None
) -> None:
    assert (opinion(verdict).vote, opinion(verdict).score) == (vote, score)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([{"id": "x", "question": "n", "answer": "o"}], "no record is one of the rated pairs"),
        ([{"id": "i0"}], "hold no verdicts"),
        ([{"id": "i0", "verdicts": [1]}], "verdicts is not an object"),
        ([{"question": "q"}], "line 1: no id"),
    ],
)
def test_sources_without_verdicts_are_refused(tmp_path: Path, lines: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_verdicts(rated([4.0]), [write_lines(tmp_path / "v.jsonl", lines)])


def test_broken_json_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text('{"id": "i0"}\n{"id"\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 2: not JSON"):
        read_verdicts(rated([4.0]), [tmp_path / "v.jsonl"])


def test_a_configuration_in_place_of_verdicts_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "judge.yaml").write_text("seed: 1\n", encoding="utf-8")
    with pytest.raises(InputError, match="ask the judge first"):
        read_verdicts(rated([4.0]), [tmp_path / "judge.yaml"])
