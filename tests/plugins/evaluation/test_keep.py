"""A run over records carries the columns it is told to, with their types."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.errors import ConfigError
from kgqa_hpc.plugins.evaluation.records import records
from tests.record_runs import config_of, jsonl, made_run

pytestmark = pytest.mark.plugin("literature")  # its step judge_support and its clusters of sequences


def configuration(source: Path, columns: list[str]) -> dict[str, Any]:
    split = {"by": "sequence_cluster", "shares": {"train": 0.5, "test": 0.5}}
    steps = {"use": "keep", "columns": columns}, "judge_support"
    return config_of(*steps, anchors=str(source), dataset={"z_score": None, "split": split})


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
    source = jsonl(tmp_path / "made.jsonl", made)
    columns = ["accession", "sequence", "taxonomy"]
    run = made_run(tmp_path, configuration(source, columns))
    dataset = list(records(run))
    assert len(dataset) == 30
    for record in dataset:
        original = made[int(record["id"][1:])]
        assert {name: record[name] for name in columns} == {name: original[name] for name in columns}
        assert "document_text" not in record
    assert len({(record["sequence"], record["split"]) for record in dataset if record["accepted"]}) == 2
    card = (run / "dataset" / "README.md").read_text(encoding="utf-8")
    assert "(single linkage of Jaccard" in card
    (file,) = (run / "dataset").glob("accepted-train-*.parquet")
    assert str(pq.read_schema(file).field("taxonomy").type).startswith("list<")


def test_a_column_that_nobody_adds_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="no step or anchor kind adds colour"):
        parse_config(configuration(Path("made.jsonl"), ["accession", "colour"]), "the test")
