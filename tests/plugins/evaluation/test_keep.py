"""A run over records carries the columns it is told to, with their types."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.errors import ConfigError
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.run import Run
from tests.plugins.evaluation.pairs import write_lines

pytestmark = pytest.mark.plugin("literature")  # its step judge_support and its clusters of sequences


def configuration(source: Path, columns: list[str]) -> dict[str, Any]:
    return {
        "anchors": {"kind": "records", "from": str(source)},
        "engine": {"kind": "scripted"},
        "passes": [{"name": "main", "steps": [{"use": "keep", "columns": columns}, "judge_support"]}],
        "dataset": {
            "z_score": None,
            "split": {"by": "sequence_cluster", "shares": {"train": 0.5, "test": 0.5}},
        },
    }


def test_columns_of_the_source_are_kept_and_a_cleaned_dataset_can_be_split_by_sequence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # without MMseqs2
    fixed = {"answer": "That.", "document_text": "That is it."}
    made = [
        {"id": f"r{n}", "question": f"What is {n}?", **fixed, "accession": f"P{n}"}
        | {
            "sequence": ("MKVLAW" if n % 2 else "GHTREP") * 5,
            "taxonomy": ["human", "mammals"] if n % 3 else None,
        }
        for n in range(30)
    ]
    source = write_lines(tmp_path / "made.jsonl", made)
    columns = ["accession", "sequence", "taxonomy"]
    (tmp_path / "run.yaml").write_text(json.dumps(configuration(source, columns)))
    Run.from_config(tmp_path / "run.yaml", tmp_path / "run").all()
    dataset = list(records(tmp_path / "run"))
    assert len(dataset) == 30
    for record in dataset:
        original = made[int(record["id"][1:])]
        assert {name: record[name] for name in columns} == {name: original[name] for name in columns}
        assert "document_text" not in record
    assert len({(record["sequence"], record["split"]) for record in dataset if record["accepted"]}) == 2
    card = (tmp_path / "run" / "dataset" / "README.md").read_text(encoding="utf-8")
    assert "(single linkage of Jaccard" in card
    (file,) = (tmp_path / "run" / "dataset").glob("accepted-train-*.parquet")
    assert str(pq.read_schema(file).field("taxonomy").type).startswith("list<")


def test_a_column_that_nobody_adds_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="no step or anchor kind adds colour"):
        parse_config(configuration(Path("made.jsonl"), ["accession", "colour"]), "the test")
