"""The embedded model reads documents: whatever it writes, each quote in a record stands in its document."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import yaml

from kgqa_hpc import stages
from kgqa_hpc.evaluate.records import records
from tests.documents.files import index, jsonl

TEXTS = {
    "1": "ATP7B carries copper out of liver cells into the bile. Without it copper stays in the liver.",
    "2": "Ferritin stores iron in cells.",
}


@pytest.mark.slow  # half a minute on a quiet core
@pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="NO EMBEDDED ENGINE (extra: cpu)")
def test_what_the_embedded_model_quotes_stands_in_the_document(tmp_path: Path) -> None:
    documents = [{"id": name, "title": "", "text": text} for name, text in TEXTS.items()]
    pairs = [{"id": "r1", "question": "What carries copper out of liver cells?", "answer": "ATP7B."}]
    jsonl(tmp_path / "pairs.jsonl", pairs)
    index(tmp_path / "index", jsonl(tmp_path / "docs.jsonl", documents), shards=1)
    config: dict[str, Any] = {
        "anchors": {"kind": "records", "from": "pairs.jsonl"},
        "engine": {"kind": "cpu"},
        "passes": [
            {
                "name": "retrieve",
                "engine": {"kind": "index", "path": "index"},
                "steps": [{"use": "retrieve", "k": 2}],
            },
            {"name": "ground", "steps": [{"use": "ground", "k": 2, "prompt": "demo_ground"}]},
        ],
        "dataset": {"z_score": None},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    stages.all_stages(tmp_path / "run.yaml", tmp_path / "run")
    (record,) = records(tmp_path / "run")
    assert record["documents"][0]["id"] == "1"
    for document in record["documents"]:
        text = TEXTS[document["id"]]
        assert all(text[one["start"] : one["end"]] == one["text"] for one in document["snippets"])
    assert record["relevant_documents"] == sum(one["relevant"] for one in record["documents"])
