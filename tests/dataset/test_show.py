"""Records can be read on a terminal, and chosen by difficulty and score in show, export and combine."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.dataset.combine import combine
from kgqa_hpc.dataset.files import condition_of
from kgqa_hpc.dataset.publish import export
from kgqa_hpc.dataset.show import render, show, why_none
from kgqa_hpc.errors import InputError
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.text.plain_text import plain, plain_line
from tests.dataset.conftest import records_of
from tests.project import write_tables
from tests.record_runs import made_run


@pytest.fixture
def folder(merged: Any) -> Path:
    path: Path = merged[0].folder.path
    return path


def test_accepted_rejected_and_lost_are_shown_with_their_reasons(folder: Path) -> None:
    assert "What links the nodes" in render(show(folder, "accepted"))
    rejected = render(show(folder, "rejected"))
    assert "rejected: judge: invalid question" in rejected
    assert "valid_question: no" in rejected
    assert not set(rejected) & set("{}")
    assert "invalid: generate: not_json" in render(show(folder, "lost"))


def test_options_are_shown_by_letter() -> None:
    chosen = {"id": "a", "choices": {"A": "Gout", "B": "Ataxia"}, "answer_letter": "B"}
    listed = {"id": "a", "options": ["Gout", "Ataxia"], "correct_option": 1}
    for record in (chosen, listed):
        assert "  A         Gout\n  B         Ataxia\n" in render([record])
    assert render([{"id": "a", "options": 3}]).endswith("options   3")  # a user's column


def test_a_group_and_a_number_narrow_what_is_shown(folder: Path) -> None:
    records = show(folder, "accepted", "shape 2", 3)
    assert [record["group"] for record in records] == ["shape 2"] * 3
    with pytest.raises(InputError, match="no group 'shape 9'") as caught:
        show(folder, "accepted", "shape 9")
    assert "shape 1, shape 2, shape 3" in caught.value.cure


def test_an_empty_answer_names_the_records_that_are_there(folder: Path) -> None:
    number = len(show(folder, "accepted", number=1000))
    lines = why_none(folder, "accepted").splitlines()
    assert lines[0] == f"none of the {number} accepted records fits"
    assert lines[1].endswith(f"rejected: kgqa show {folder} --rejected")
    assert "accepted: kgqa show" in why_none(folder, "lost")


@given(st.text())
def test_no_control_and_no_bidirectional_character_is_left(text: str) -> None:
    shown = plain(text)
    assert not any(ord(c) < 32 and c not in "\n\t" for c in shown)
    assert not set(shown) & set("\x7f\x85\x9b\u202a\u202e\u2066\u2069\u200f\ud800")
    assert len(shown) == len(text)
    assert not set("\n\t") & set(plain_line(text))


CONFIG: dict[str, Any] = {
    "anchors": {"kind": "hub", "number": 60, "min_degree": 2, "uses": 1},
    "engine": {"kind": "scripted"},
    "passes": [
        {
            "name": "main",
            "steps": [{"use": "generate", "prompt": "hub"}, {"use": "score", "prompt": "quality"}],
        }
    ],
    "dataset": {"z_score": None},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunFolder]:
    """Two runs over a wheel of 80 nodes, of records with a difficulty and a score."""
    folder = tmp_path_factory.mktemp("where")
    rim = [(f"n{i}", f"Node number {i}", "thing") for i in range(80)]
    edges = [(f"n{i}", f"n{(i * k) % 80}", "links") for i in range(80) for k in (2, 3) if i != i * k % 80]
    write_tables(folder, rim, edges)
    graph = {"source": "csv", "nodes": "nodes.csv", "edges": "edges.csv", "min_degree": 0}
    configs = {f"run{seed}": {**CONFIG, "seed": seed, "graph": graph} for seed in (1, 2)}
    return [RunFolder(made_run(folder, config, name)) for name, config in configs.items()]


def test_show_export_and_combine_keep_what_fits(runs: list[RunFolder], tmp_path: Path) -> None:
    where = condition_of(["easy"], ["score=6"])
    run = runs[0]
    fit = [
        one["id"]
        for one in records_of(run.dataset)
        if one["difficulty"] == "easy" and one["features"]["score"] >= 6
    ]
    assert 0 < len(fit) < len(records_of(run.dataset))
    assert [one["id"] for one in show(run.path, number=1000, where=where)] == fit
    export(run, "messages", tmp_path / "messages", where)
    assert [line["id"] for line in records_of(tmp_path / "messages", "train")] == fit
    told = combine(tmp_path / "out", runs, mixed=True, where=where)
    kept = records_of(tmp_path / "out")
    assert all(one["difficulty"] == "easy" and one["features"]["score"] >= 6 for one in kept)
    assert told["runs"][0]["accepted"] == len(fit)
    assert told["filtered"] > 0
    assert told["where"] == "difficulty IN ('easy') AND features.\"score\" >= 6.0"
    records = show(run.path, number=1000, where=condition_of(condition="features.score >= 6 -- enough"))
    assert [one["id"] for one in records] == [
        one["id"] for one in records_of(run.dataset) if one["features"]["score"] >= 6
    ]


@pytest.mark.parametrize(
    ("difficulty", "scores", "said"),
    [
        (["simple"], [], "--difficulty simple: there is none"),
        ([], ["7"], "--score 7: is not NAME=LEAST"),
        ([], ["=7"], "--score =7: is not"),
        ([], ["score=high"], "--score score=high: is not"),
        ([], ["score=nan"], "--score score=nan: is not"),
    ],
)
def test_a_condition_that_is_none_is_refused(difficulty: list[str], scores: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        condition_of(difficulty, scores)


def test_a_score_or_difficulty_of_none_is_named(runs: list[RunFolder], merged: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match='Could not find key "quality"') as caught:
        show(runs[0].path, where=condition_of((), ["quality=1"]))
    assert "DESCRIBE accepted" in caught.value.cure
    with pytest.raises(InputError, match="difficulty"):
        export(merged[0].folder, "csv", tmp_path / "csv", condition_of(["hard"]))
    assert not (tmp_path / "csv").exists()
