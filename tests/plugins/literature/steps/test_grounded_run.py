"""Grounding as a run: over a file of pairs, an index and the scripted engine; nothing lost, nothing made up."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from kgqa_hpc import stages
from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.cli import app
from kgqa_hpc.dataset.explain import explain
from kgqa_hpc.errors import FingerprintMismatch
from kgqa_hpc.plugins.evaluation.cli import grounding_counts
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.plugins.literature.steps.ground import Retrieve
from kgqa_hpc.runs import open_for_work
from kgqa_hpc.steps.item import Item
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.trials.replay import replay
from tests.plugins.literature.documents.files import index, jsonl
from tests.work.rig import Processes, kill_and_finish

PAIRS = 24
WORDS = ("copper", "iron", "zinc", "liver", "kidney", "transport", "storage", "protein")


def index_of(folder: Path, documents: int) -> Path:
    draw = random.Random(5)
    lines = [
        {
            "id": str(n),
            "title": f"Title {n}",
            "text": f"Study {n}: " + " ".join(draw.choices(WORDS, k=12)) + ".",
        }
        for n in range(documents)
    ]
    return index(folder / "index", jsonl(folder / "docs.jsonl", lines))


def configure(folder: Path, latency: float = 0.0) -> Path:
    draw = random.Random(6)
    pairs = [
        {
            "id": f"r{n}",
            "question": f"What of {' '.join(draw.sample(WORDS, 2))}?",
            "answer": "Some.",
            "accepted": True,
        }
        for n in range(PAIRS)
    ]
    pairs[3] |= {"question": "Quid novi?", "answer": "Nihil."}  # nothing is found for it
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    config: dict[str, Any] = {
        "anchors": {"kind": "records", "from": "pairs.jsonl"},
        "engine": {"kind": "scripted", "accept": 0.5, "latency": {"batch": 4, "per_request_s": latency}},
        "passes": [
            {
                "name": "retrieve",
                "engine": {"kind": "index", "path": "index"},
                "steps": [{"use": "retrieve", "k": 4}],
            },
            {"name": "ground", "steps": [{"use": "ground", "k": 4}]},
        ],
        "dataset": {"z_score": None},
        "runtime": {"shard_size": 5, "commit_every": 0.2, "lease": 3.0},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    return folder / "run.yaml"


@pytest.fixture(scope="module")
def grounded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grounded")
    index_of(folder, 40)
    stages.all_stages(configure(folder), folder / "run")
    return folder


def test_explain_and_replay_show_every_request_with_the_document_that_was_read(grounded: Path) -> None:
    record = next(entry for entry in records(grounded / "run") if len(entry["documents"]) > 1)
    requests = explain(grounded / "run", record["id"])["requests"]
    assert [entry["step"] for entry in requests] == ["retrieve"] + ["ground"] * len(record["documents"])
    for document, entry in zip(record["documents"], requests[1:], strict=True):
        assert f"Study {document['id']}:" in entry["messages"][-1]["content"]
    assert replay(grounded / "run", record["id"])["same"]


def test_explain_shows_pairs_that_are_grounded_again(grounded: Path) -> None:
    """The documents of a grounded source have no title and no text."""
    config = yaml.safe_load((grounded / "run.yaml").read_text())
    config["anchors"] = {"kind": "records", "from": "run"}
    (grounded / "again.yaml").write_text(yaml.safe_dump(config))
    stages.all_stages(grounded / "again.yaml", grounded / "again")
    ids = [record["id"] for record in records(grounded / "again")]
    shown = CliRunner().invoke(app, ["explain", str(grounded / "again"), *ids[:3], "--json"])
    assert shown.exit_code == 0, shown.output
    stories = json.loads(shown.stdout)
    assert [story["id"] for story in stories] == ids[:3]
    assert all(request["messages"] for story in stories for request in story["requests"])
    assert ids[2] in CliRunner().invoke(app, ["explain", str(grounded / "again"), *ids[:3]]).stdout


def test_a_search_without_an_answer_leaves_the_documents_of_the_source() -> None:
    before = [{"id": "9", "rank": 1, "score": 2.0, "relevant": True, "snippets": []}]
    item = Item(Anchor("r1", "records", "all"))
    item.output["documents"] = before
    step = Retrieve.__new__(Retrieve)
    step.restore(item, {"documents": before})
    assert item.output["documents"] == before


def test_every_pair_has_its_documents_in_order_and_counts_add_up(grounded: Path) -> None:
    found = {record["source_id"]: record for record in records(grounded / "run")}
    assert len(found) == PAIRS
    for name, record in found.items():
        documents = record["documents"]
        assert [one["rank"] for one in documents] == list(range(1, len(documents) + 1))
        assert [one["score"] for one in documents] == sorted(
            (one["score"] for one in documents), reverse=True
        )
        assert record["relevant_documents"] == sum(one["relevant"] for one in documents)
        assert len(documents) == (0 if name == "r3" else 4)
        # What the scripted engine says stands in no document.
        assert record["quotes_kept"] == sum(len(one["snippets"]) for one in documents) == 0
    counts = grounding_counts(records(grounded / "run"), "the run")
    assert counts["pairs"] == PAIRS
    assert counts["quotes"]["dropped"] == sum(record["quotes_dropped"] for record in found.values()) > 0
    assert counts["mean"] == sum(record["relevant_documents"] for record in found.values()) / PAIRS


def test_the_provenance_names_the_index_that_was_asked(grounded: Path) -> None:
    manifest = json.loads((grounded / "index" / "index.json").read_text())
    engines = next(records(grounded / "run"))["provenance"]["engine"]
    assert engines["retrieve"]["digest"] == manifest["fingerprint"]
    assert engines["ground"]["name"] == "scripted"


def test_another_index_of_the_same_name_is_another_run(tmp_path: Path) -> None:
    index_of(tmp_path, 10)
    stages.init(configure(tmp_path), tmp_path / "run")
    open_for_work(tmp_path / "run")
    (tmp_path / "index").rename(tmp_path / "old")
    index_of(tmp_path, 11)
    with pytest.raises(FingerprintMismatch, match=r"retrieve\.contents\.index"):
        open_for_work(tmp_path / "run")


@pytest.mark.slow
def test_kill_9_while_grounding_changes_no_byte(grounded: Path, tmp_path: Path, processes: Processes) -> None:
    """Killed after each of several moments of progress; the next start goes on."""
    index_of(tmp_path, 40)
    config = configure(tmp_path, latency=0.02)
    stages.init(config, tmp_path / "run")
    stages.sample(tmp_path / "run")
    kill_and_finish(RunFolder(tmp_path / "run"), processes)
    stages.merge(tmp_path / "run")
    same = [folder / "run" / "dataset" / "accepted.jsonl" for folder in (grounded, tmp_path)]
    assert same[0].read_bytes() == same[1].read_bytes()
