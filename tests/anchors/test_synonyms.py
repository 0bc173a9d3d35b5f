"""Synonyms of the graph reach the anchors of a run, and leave their ids as they are."""

import json

import pytest

from kgqa_hpc import stages
from kgqa_hpc.store.shards import AnchorsFile
from tests.golden.cases import config, write_graph

KINDS = {
    "graphlet": ({"per_shape": 5}, ["generate", "check"]),
    "context": ({"number": 20}, ["options", "verify"]),
}


def sampled(folder, name, graph, kind):
    size, steps = KINDS[kind]
    sections = {"anchors": {"kind": kind, **size}, "passes": [{"name": "main", "steps": steps}]}
    run = stages.init(config(folder, name, graph=graph, **sections), folder / name)
    stages.import_graph(run.path)
    stages.sample(run.path)
    with AnchorsFile(run.anchors) as anchors:
        return list(anchors.rows())


@pytest.mark.parametrize("kind", KINDS)
def test_an_anchor_holds_the_synonyms_of_its_nodes_and_has_the_id_it_has_without(tmp_path, kind):
    graph = write_graph(tmp_path)
    plain = sampled(tmp_path, "plain", graph, kind)
    header, *rows = (tmp_path / "nodes.csv").read_text().splitlines()
    # Every other node has synonyms.
    named = [f"{row},first {row.split(',')[0]}|second" if n % 2 else f"{row}," for n, row in enumerate(rows)]
    (tmp_path / "nodes.csv").write_text("\n".join([f"{header},synonyms", *named, ""]))
    found = sampled(tmp_path, "named", graph, kind)
    assert [row["id"] for row in found] == [row["id"] for row in plain]
    held = 0
    for row, before in zip(found, plain, strict=True):
        odd = ((node, name) for node, name, _ in row["nodes"] if int(node.removeprefix("N")) % 2)
        synonyms = {name: [f"first {node}", "second"] for node, name in odd}
        expected = {**before["data"], "synonyms": synonyms} if synonyms else before["data"]
        assert json.loads(json.dumps(row["data"])) == expected
        held += bool(synonyms)
    assert held
