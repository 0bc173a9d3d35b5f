"""Grounding as a run: over a file of pairs, an index and the scripted engine; nothing lost, nothing made up."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc import stages
from kgqa_hpc.dataset.explain import explain
from kgqa_hpc.errors import FingerprintMismatch
from kgqa_hpc.plugins.evaluation.cli import grounding_counts
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.plugins.literature.ground import Retrieve
from kgqa_hpc.runs import open_for_work
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.trials.replay import replay
from tests.command import kgqa
from tests.plugins.literature.builders import index
from tests.record_runs import config_of, item_of, jsonl, made_run, written
from tests.work.rig import Processes, kill_and_finish

PAIRS = 24
WORDS = ("copper", "iron", "zinc", "liver", "kidney", "transport", "storage", "protein")


def make_index(folder: Path, documents: int) -> None:
    draw = random.Random(5)
    texts = [f"Study {n}: {' '.join(draw.choices(WORDS, k=12))}." for n in range(documents)]
    rows = [{"id": str(n), "title": f"Title {n}", "text": text} for n, text in enumerate(texts)]
    index(folder / "index", jsonl(folder / "docs.jsonl", rows))


def grounding(folder: Path, pairs: str = "pairs.jsonl", latency: float = 0.0) -> dict[str, Any]:
    """The configuration over a file of pairs that is written here."""
    draw = random.Random(6)
    rows = [
        {"id": f"r{n}", "question": f"What of {' '.join(draw.sample(WORDS, 2))}?", "answer": "Some."}
        for n in range(PAIRS)
    ]
    rows[3] |= {"question": "Quid novi?", "answer": "Nihil."}  # nothing is found for it
    jsonl(folder / "pairs.jsonl", [{**row, "accepted": True} for row in rows])
    retrieve = {"name": "retrieve", "engine": {"kind": "index", "path": "index"}}
    passes = [
        {**retrieve, "steps": [{"use": "retrieve", "k": 4}]},
        {"name": "ground", "steps": [{"use": "ground", "k": 4}]},
    ]
    engine = {"kind": "scripted", "accept": 0.5, "latency": {"batch": 4, "per_request_s": latency}}
    runtime = {"shard_size": 5, "commit_every": 0.2, "lease": 3.0}
    return config_of(anchors=pairs, engine=engine, passes=passes, runtime=runtime)


@pytest.fixture(scope="module")
def grounded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grounded")
    make_index(folder, 40)
    made_run(folder, grounding(folder))
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
    again = made_run(grounded, grounding(grounded, pairs="run"), "again")
    ids = [record["id"] for record in records(again)][:3]
    stories = json.loads(kgqa("explain", again, *ids, "--json").stdout)
    assert [story["id"] for story in stories] == ids
    assert all(request["messages"] for story in stories for request in story["requests"])
    assert ids[2] in kgqa("explain", again, *ids).stdout


def test_a_search_without_an_answer_leaves_the_documents_of_the_source() -> None:
    before = [{"id": "9", "rank": 1, "score": 2.0, "relevant": True, "snippets": []}]
    item = item_of(documents=before)
    Retrieve.__new__(Retrieve).restore(item, {"documents": before})
    assert item.output["documents"] == before


def test_every_pair_has_its_documents_in_order_and_counts_add_up(grounded: Path) -> None:
    rows = {record["source_id"]: record for record in records(grounded / "run")}
    assert len(rows) == PAIRS
    for name, record in rows.items():
        documents = record["documents"]
        assert [document["rank"] for document in documents] == list(range(1, len(documents) + 1))
        scores = [document["score"] for document in documents]
        assert scores == sorted(scores, reverse=True)
        assert record["relevant_documents"] == sum(document["relevant"] for document in documents)
        assert len(documents) == (0 if name == "r3" else 4)
        # What the scripted engine says stands in no document.
        assert record["quotes_kept"] == sum(len(document["snippets"]) for document in documents) == 0
    counts = grounding_counts(records(grounded / "run"), "the run")
    assert counts["pairs"] == PAIRS
    assert counts["quotes"]["dropped"] == sum(record["quotes_dropped"] for record in rows.values()) > 0
    assert counts["mean"] == sum(record["relevant_documents"] for record in rows.values()) / PAIRS


def test_the_provenance_names_the_index_that_was_asked(grounded: Path) -> None:
    manifest = json.loads((grounded / "index" / "index.json").read_text())
    engines = next(records(grounded / "run"))["provenance"]["engine"]
    assert engines["retrieve"]["digest"] == manifest["fingerprint"]
    assert engines["ground"]["name"] == "scripted"


def test_another_index_of_the_same_name_is_another_run(tmp_path: Path) -> None:
    make_index(tmp_path, 10)
    stages.init(written(tmp_path / "run.yaml", grounding(tmp_path)), tmp_path / "run")
    open_for_work(tmp_path / "run")
    (tmp_path / "index").rename(tmp_path / "old")
    make_index(tmp_path, 11)
    with pytest.raises(FingerprintMismatch, match=r"retrieve\.contents\.index"):
        open_for_work(tmp_path / "run")


@pytest.mark.slow
def test_kill_9_while_grounding_changes_no_byte(grounded: Path, tmp_path: Path, processes: Processes) -> None:
    """Killed after each of several moments of progress; the next start goes on."""
    make_index(tmp_path, 40)
    stages.init(written(tmp_path / "run.yaml", grounding(tmp_path, latency=0.02)), tmp_path / "run")
    stages.sample(tmp_path / "run")
    kill_and_finish(RunFolder(tmp_path / "run"), processes)
    stages.merge(tmp_path / "run")
    undisturbed, killed = (folder / "run" / "dataset" / "accepted.jsonl" for folder in (grounded, tmp_path))
    assert undisturbed.read_bytes() == killed.read_bytes()
