"""The embedded model reads documents and rephrases pairs by the demo's own configurations: whatever it writes, what
ends in a record is a quote, five different options, a question of yes or no."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.plugins.literature.document import sentences
from kgqa_hpc.plugins.literature.rephrase import options_trouble
from kgqa_hpc.prompts.files import shipped_prompts
from tests.plugins.literature.builders import index
from tests.record_runs import jsonl, made_run

NO_ENGINE = importlib.util.find_spec("xllamacpp") is None
pytestmark = [
    pytest.mark.slow,  # half a minute on a quiet core
    pytest.mark.skipif(NO_ENGINE, reason="NO EMBEDDED ENGINE (extra: cpu)"),
]
TEXTS = {
    "1": "ATP7B carries copper out of liver cells into the bile. Without it copper stays in the liver.",
    "2": "Ferritin stores iron in cells.",
}
PAIR = {"id": "r1", "question": "What carries copper out of liver cells?", "answer": "ATP7B does."}


def run_demo(folder: Path, name: str) -> list[dict[str, Any]]:
    """Accepted and rejected records of a shipped configuration over PAIR and TEXTS; it may end invalid instead."""
    documents = [{"id": number, "title": "", "text": text} for number, text in TEXTS.items()]
    index(folder / "index", jsonl(folder / "docs.jsonl", documents), shards=1)
    shipped = shipped_prompts().parent / "configs" / f"{name}.yaml"
    config = yaml.safe_load(shipped.read_text(encoding="utf-8"))
    config["seed"] = 5  # under which options need not be asked for twice
    config["anchors"]["from"] = str(jsonl(folder / "pairs.jsonl", [PAIR]))
    for one in config["passes"]:
        if "engine" in one:
            one["engine"]["path"] = str(folder / "index")
    run = made_run(folder, config)
    rows = list(records(run))
    counts = json.loads((run / "dataset" / "accounting.json").read_text())
    assert counts["sampled"] == 1 == len(rows) + sum(counts["invalid"].values())
    return rows


def test_what_the_embedded_model_names_as_evidence_is_a_sentence_of_its_document(tmp_path: Path) -> None:
    found = run_demo(tmp_path, "demo_pubmedqa")
    for record in found:
        assert {document["id"] for document in record["documents"]} <= {"1", "2"}
        for document in record["documents"]:
            places = {(one.start, one.end, one.text) for one in sentences(TEXTS[document["id"]])}
            assert {(one["start"], one["end"], one["text"]) for one in document["snippets"]} <= places
        assert record["quotes_dropped"] == 0
        assert record["relevant_documents"] == sum(one["relevant"] for one in record["documents"])
        assert record["question"].endswith("?")
        assert record["final_decision"] in ("yes", "no", "maybe")


def test_what_the_embedded_model_makes_of_a_pair_has_five_options_and_a_label(tmp_path: Path) -> None:
    for record in run_demo(tmp_path, "demo_medqa"):
        options, place = record["options"], record["correct_option"]
        assert options[place] == record["answer"]
        assert options_trouble(options[place], [*options[:place], *options[place + 1 :]]) is None
        assert record["source_question"] == PAIR["question"]
