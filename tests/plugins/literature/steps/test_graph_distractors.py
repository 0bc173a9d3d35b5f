"""MedQA questions with wrong options from the graph: none shares an edge with the question's nodes or the answer."""

import csv
import re
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors.anchor import Anchor, Source, Tools
from kgqa_hpc.anchors.records import RecordAnchors
from kgqa_hpc.kg.file import read_graph
from kgqa_hpc.plugins.evaluation.records import records
from tests.command import kgqa
from tests.project import write_graph
from tests.record_runs import config_of, jsonl, written


def medqa_of(source: Path) -> dict[str, Any]:
    anchors = {"kind": "records", "from": str(source), "distractors": "graph"}
    steps = ("rephrase_medqa_graph", "judge_options")
    return config_of(*steps, anchors=anchors, dataset={"decontaminate": []})


def pairs_of(folder: Path, unnamed: str = "") -> list[dict[str, Any]]:
    """A question about an end of each edge, in a run that has read its graph; node `unnamed` has no name."""
    write_graph(folder)
    if unnamed:
        table = (folder / "nodes.csv").read_text().splitlines()
        kept = [re.sub(f"^{unnamed},[^,]*", f"{unnamed},", line) for line in table]
        (folder / "nodes.csv").write_text("\n".join(kept) + "\n")
    graph = {"source": "csv", "nodes": "nodes.csv", "edges": "edges.csv"}
    config = config_of("generate", graph=graph)
    del config["anchors"]
    kgqa("init", written(folder / "run.yaml", config), folder / "source")
    kgqa("import", folder / "source")
    with (folder / "nodes.csv").open() as file:
        nodes = {row["id"]: row for row in csv.DictReader(file)}
    with (folder / "edges.csv").open() as file:
        ends = [(nodes[row["source_id"]], nodes[row["target_id"]]) for row in csv.DictReader(file)]
    return [
        {"id": f"{given['id']}-{answer['id']}", "nodes": [given, answer], "accepted": True}
        | {"question": f"Which {answer['type']} is related to {given['name']}?"}
        | {"answer": f"It is {answer['name']}."}
        for given, answer in ends[:60]
    ]


def put_records(folder: Path, pairs: list[dict[str, Any]]) -> Path:
    """These records as the dataset of the run `source`."""
    dataset = folder / "source" / "dataset"
    dataset.mkdir(exist_ok=True)
    (dataset / "rejected.jsonl").touch()
    jsonl(dataset / "accepted.jsonl", pairs)
    return folder / "source"


def test_four_wrong_options_of_the_answers_type_are_of_the_graph_and_no_neighbours(tmp_path: Path) -> None:
    pairs = {pair["id"]: pair for pair in pairs_of(tmp_path)}
    source, run = put_records(tmp_path, list(pairs.values())), tmp_path / "medqa"
    kgqa("all", written(tmp_path / "medqa.yaml", medqa_of(source)), run)
    graph = read_graph(source / "kg.h5")
    position = {str(name): number for number, name in enumerate(graph.names)}
    starts, neighbours = graph.csr()
    optioned = [record for record in records(run) if record["options"]]
    assert len(optioned) >= 30
    for record in optioned:
        given, answer = (node["name"] for node in pairs[record["source_id"]]["nodes"])
        options = [position[name] for name in record["options"]]
        assert record["options"][record["correct_option"]] == record["answer"] == answer
        assert len(set(options)) == 5
        assert len({int(graph.node_type[node]) for node in options}) == 1
        wrong = set(options) - {position[answer]}
        for node in (position[given], position[answer]):
            assert not wrong & set(neighbours[starts[node] : starts[node + 1]].tolist())


def test_records_without_a_graph_are_refused_before_the_run_exists(tmp_path: Path) -> None:
    file = jsonl(tmp_path / "pairs.jsonl", [{"id": "a", "question": "What is it?", "answer": "That."}])
    run = tmp_path / "run"
    assert "kg.h5" in kgqa("all", written(tmp_path / "medqa.yaml", medqa_of(file)), run, code=2).stderr
    assert not run.exists()


def drawn(folder: Path, pairs: list[dict[str, Any]]) -> list[Anchor]:
    """The anchors of these records, with options from the graph of the run `source`."""
    source = str(put_records(folder, pairs))
    settings = RecordAnchors.Settings.model_validate({"from": source, "distractors": "graph"})
    return list(RecordAnchors().draw(Source(), settings, 1, Tools()).anchors)


def test_a_pair_with_a_node_that_the_graph_lacks_gets_no_options(tmp_path: Path) -> None:
    pair = pairs_of(tmp_path)[0]
    other = {"id": "N:unknown", "name": "entity unknown", "type": "gene"}
    question = pair["question"].replace("?", " and entity unknown?")
    changed = {**pair, "id": "changed", "question": question, "nodes": [*pair["nodes"], other]}
    options = {anchor.id: anchor.data.get("wrong") for anchor in drawn(tmp_path, [pair, changed])}
    assert len(options[pair["id"]]) == 4
    assert options["changed"] is None


def test_a_node_without_a_name_is_no_option(tmp_path: Path) -> None:
    pairs = pairs_of(tmp_path, unnamed="N:5")
    options = [anchor.data.get("wrong", []) for anchor in drawn(tmp_path, pairs)]
    assert sum(map(len, options)) > 100
    assert all(all(names) for names in options)
