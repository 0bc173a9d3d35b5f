"""Records are kept by difficulty and score in show, export and combine, and a column nobody has is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kgqa_hpc import stages
from kgqa_hpc.dataset.combine import combine
from kgqa_hpc.dataset.exports.source import export
from kgqa_hpc.dataset.show import show
from kgqa_hpc.dataset.where import Where
from kgqa_hpc.errors import InputError
from kgqa_hpc.store.run_folder import RunFolder

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
    rim = [f"n{i},Node number {i},thing" for i in range(80)]
    edges = [f"n{i},n{(i * k) % 80},links" for i in range(80) for k in (2, 3) if i != i * k % 80]
    (folder / "nodes.csv").write_text("\n".join(["id,name,type", *rim, ""]))
    (folder / "edges.csv").write_text("\n".join(["source_id,target_id,type", *edges, ""]))
    graph = {
        "source": "csv",
        "nodes": str(folder / "nodes.csv"),
        "edges": str(folder / "edges.csv"),
        "min_degree": 0,
    }
    made = []
    for seed in (1, 2):
        file = folder / f"{seed}.yaml"
        file.write_text(yaml.safe_dump({**CONFIG, "seed": seed, "graph": graph}))
        made.append(stages.all_stages(file, folder / f"run{seed}"))
    return made


def of(run: RunFolder) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.dataset / "accepted.jsonl").open()]


def test_show_export_and_combine_keep_what_fits(runs: list[RunFolder], tmp_path: Path) -> None:
    where = Where.of(["easy"], ["score=6"])
    run = runs[0]
    fit = [one["id"] for one in of(run) if one["difficulty"] == "easy" and one["features"]["score"] >= 6]
    assert 0 < len(fit) < len(of(run))
    assert [one["id"] for one in show(run.path, number=1000, where=where)] == fit
    export(run, "messages", tmp_path / "messages", where)
    written = (tmp_path / "messages" / "train.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in written] == fit
    told = combine(tmp_path / "out", runs, mixed=True, where=where)
    kept = [json.loads(line) for line in (tmp_path / "out" / "accepted.jsonl").open()]
    assert all(one["difficulty"] == "easy" and one["features"]["score"] >= 6 for one in kept)
    assert told["runs"][0]["accepted"] == len(fit)
    assert told["filtered"] > 0
    assert told["where"] == "difficulty IN ('easy') AND features.\"score\" >= 6.0"
    records = show(run.path, number=1000, where=Where.of(condition="features.score >= 6 -- enough"))
    assert [one["id"] for one in records] == [one["id"] for one in of(run) if one["features"]["score"] >= 6]


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
        Where.of(difficulty, scores)


def test_a_score_or_difficulty_that_no_record_has_is_named(
    runs: list[RunFolder], make_run: Any, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match='Could not find key "quality"') as caught:
        show(runs[0].path, where=Where.of((), ["quality=1"]))
    assert "DESCRIBE accepted" in caught.value.cure
    plain = make_run()
    plain.finish()
    stages.merge(plain.folder.path)
    with pytest.raises(InputError, match="difficulty"):
        export(plain.folder, "csv", tmp_path / "csv", Where.of(["hard"]))
    assert not (tmp_path / "csv").exists()
