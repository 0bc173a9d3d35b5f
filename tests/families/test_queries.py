"""The query of every record gives its answers on the exported graph, executed by Oxigraph."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyoxigraph as ox
import pytest

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.dataset.publish import export
from kgqa_hpc.kg.file import export_graph
from kgqa_hpc.kg.graph import KnowledgeGraph
from tests.command import kgqa
from tests.families.conftest import as_tables, dataset, draw, lines, sampled
from tests.families.test_whole_graph import EXCLUDED, hub_graph, source_of
from tests.kg.conftest import load_source

FORMATS = {".nt": ox.RdfFormat.N_TRIPLES, ".ttl": ox.RdfFormat.TURTLE}
LABEL = ox.NamedNode("http://www.w3.org/2000/01/rdf-schema#label")
START = "FIND nodes WITH id=<entity> AS one\n"
SCRIPTS = {
    "names": "GRAPHWALK FROM one FOLLOW hits DIRECTION out AS near\nSELECT near FIELDS name, id AS answer",
    "count": "GRAPHWALK FROM one FOLLOW hits, causes AS near\nCOUNT near AS answer",
    "any": "GRAPHWALK FROM one AS near\n"
    "UPDATE near WITH near OPERATION: filter WHERE type != gene\nCOUNT near AS answer",
    "two": "GRAPHWALK FROM one FOLLOW hits DIRECTION in AS near\n"
    "GRAPHWALK FROM near FOLLOW causes DIRECTION out AS far\n"
    "UPDATE far WITH far OPERATION: filter WHERE id != <entity>\nSELECT far FIELDS name AS answer",
}
TEMPLATES = [
    {"name": f"{name} {kind}", "script": START + text, "entity": kind, "asks": "something"}
    for name, text in SCRIPTS.items()
    for kind in ("drug", "gene", "disease")
]
EFFECTS = {"hits": "raises", "causes": "lowers"}
KIND_SETTINGS: dict[str, list[dict[str, Any]]] = {
    "path": [{"length": length, "max_answers": 30, "shortcuts": True} for length in (1, 2, 3)],
    "fact": [{"max_answers": 20, "attributes": ["year", "rare", "score", "note"]}],
    "script": [{"scripts": TEMPLATES, "max_answers": 30}],
    "puzzle": [{"length": length, "distractors": 3, "effects": EFFECTS} for length in (1, 2, 3)],
}


def strange(graph: KnowledgeGraph) -> KnowledgeGraph:
    """The graph with ids and names that need escapes, and properties of every type."""
    size = graph.num_nodes
    ids, names = graph.node_ids.copy(), graph.names.copy()
    ids[3], ids[4], names[5], names[6] = 'a b<>"%/é', "x\\y`'z", 'say "x" \\ <&>', "line one, é"
    columns = {
        "year": pa.array([1900 + k if k % 3 else None for k in range(size)], pa.int64()),
        "rare": pa.array([k % 2 == 0 if k % 5 == 0 else None for k in range(size)], pa.bool_()),
        "score": pa.array([k / 7 if k % 4 == 0 else None for k in range(size)], pa.float64()),
        "note": pa.array([f'a "note"\\{k}' if k % 6 == 0 else None for k in range(size)], pa.large_string()),
    }
    edges = {"since": pa.array([k if k % 2 else None for k in range(graph.num_edges)], pa.int64())}
    return replace(graph, node_ids=ids, names=names, node_properties=columns, edge_properties=edges)


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return strange(hub_graph(nodes=1200, edges=5000))


@pytest.fixture(scope="module")
def stores(graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> list[ox.Store]:
    folder, loaded = tmp_path_factory.mktemp("rdf"), []
    for ending, format_ in FORMATS.items():
        (file,) = export_graph(graph, [EXCLUDED], folder / f"graph{ending}")
        store = ox.Store()
        store.load(path=str(file), format=format_)
        loaded.append(store)
    assert set(loaded[0]) == set(loaded[1])
    return loaded


def answers_of(store: ox.Store, query: str) -> list[str]:
    """The names of the nodes that a query gives, or its values."""
    found = []
    for solution in store.query(query):
        answer = solution["answer"]
        if isinstance(answer, ox.NamedNode):
            (answer,) = (quad.object for quad in store.quads_for_pattern(answer, LABEL, None))
        found.append(answer.value)
    return found


@pytest.mark.parametrize("kind", KIND_SETTINGS)
def test_the_queries_of_records_answer(kind: str, graph: KnowledgeGraph, stores: list[ox.Store]) -> None:
    if kind == "puzzle":
        pytest.importorskip("clingo", reason="CLINGO IS NOT INSTALLED (extra: puzzles)")
    made, executed = KINDS.get(kind)(), 0
    for settings in KIND_SETTINGS[kind]:
        for anchor in draw(source_of(graph), kind, number=300, **settings):
            record = made.record(anchor, {})
            expected = [record["asked"]] if kind == "puzzle" else record["answers"]
            assert sorted(set(answers_of(stores[0], record["query"]))) == sorted(expected), record["query"]
            executed += 1
    assert executed >= 300


def test_a_premise_the_graph_lacks_gives_no_answer(graph: KnowledgeGraph, stores: list[ox.Store]) -> None:
    pytest.importorskip("clingo", reason="CLINGO IS NOT INSTALLED (extra: puzzles)")
    anchor = draw(source_of(graph), "puzzle", number=1, **KIND_SETTINGS["puzzle"][0])[0]
    query = KINDS.get("puzzle")().record(anchor, {})["query"]
    assert answers_of(stores[0], query)
    absent = query.replace("relation:hits", "relation:other").replace(":causes", ":none")
    assert not answers_of(stores[0], absent)


def test_a_script_without_a_direct_translation_and_an_earlier_version_have_no_query(graph: Any) -> None:
    text = START + "GRAPHWALK FROM one DEPTH 2 AS near\nCOUNT near AS answer"
    script = {"name": "far", "script": text, "entity": "gene", "asks": "something"}
    anchor = draw(source_of(graph), "script", number=1, scripts=[script], max_answers=500)[0]
    assert KINDS.get("script")().record(anchor, {})["query"] is None
    anchor = draw(source_of(graph), "path", number=1)[0]
    old = {name: value for name, value in anchor.data.items() if name != "unnamed"}
    record = KINDS.get("path")().record(replace(anchor, data=old), {})
    assert (record["query"], record["cypher"]) == (None, None)


def test_cypher_says_the_same_chain(graph: KnowledgeGraph) -> None:
    """No engine for Cypher is at hand: its text is held against the anchor."""
    for anchor in draw(source_of(graph), "path", number=200, length=3, shortcuts=True):
        cypher = KINDS.get("path")().record(anchor, {})["cypher"]
        steps = [
            f"-[:`{step['relation']}`]->" if step["out"] else f"<-[:`{step['relation']}`]-"
            for step in anchor.data["way"]
        ]
        assert cypher.startswith(f"MATCH (given:`{anchor.nodes[0].type}` {{id: '")
        assert cypher.endswith("RETURN DISTINCT answer.id AS answer")
        types = [step["type"] for step in anchor.data["way"]]
        names = ["node1", "node2", "answer"]
        chain = "".join(f"{s}({n}:`{t}`)" for s, n, t in zip(steps, names, types, strict=True))
        assert chain in cypher


@pytest.mark.parametrize("ending", [".csv", ".graphml"])
def test_an_exported_graph_is_read_again(graph: KnowledgeGraph, tmp_path: Path, ending: str) -> None:
    named = graph.subgraph([bool(name.strip()) for name in graph.names])
    files = export_graph(named, [EXCLUDED], tmp_path / f"graph{ending}")
    keys = ("nodes", "edges") if ending == ".csv" else ("path",)
    again = load_source(ending[1:], **dict(zip(keys, files, strict=True)))
    kept = named.with_edges([named.edge_types[code] != EXCLUDED for code in named.edge_type])
    assert [again.node(k) for k in range(again.num_nodes)] == [kept.node(k) for k in range(kept.num_nodes)]

    def edges(one: KnowledgeGraph) -> list[tuple[int, str, int]]:
        rows = zip(one.edge_source, one.edge_type, one.edge_target, strict=True)
        return [(int(s), one.edge_types[k], int(t)) for s, k, t in rows]

    assert edges(again) == edges(kept)
    for part in ("node_properties", "edge_properties"):
        ours, theirs = (getattr(one, part) for one in (again, kept))
        assert {name: column.to_pylist() for name, column in ours.items()} == {
            name: column.to_pylist() for name, column in theirs.items()
        }


def test_a_run_exports_its_graph_its_queries_and_names_what_it_left_out(tmp_path: Path) -> None:
    graph: dict[str, Any] = as_tables(hub_graph(nodes=200, edges=700), tmp_path)
    assert Path(graph["nodes"]).read_text().startswith("id,name,type\n")
    graph |= {"min_degree": 1, "max_degree": 12, "exclude_edge_types": [EXCLUDED]}
    steps = [{"use": "word", "prompt": "fact"}, "verify"]
    config = {"graph": graph, "anchors": {"kind": "fact", "number": 60, "max_answers": 5}}
    config |= {"engine": {"kind": "scripted"}, "passes": [{"name": "main", "steps": steps}]}
    run = sampled(tmp_path, {**config, "dataset": {"z_score": None}})
    kgqa("run", run.path)
    records = lines(dataset(run)["accepted.jsonl"])
    assert records
    assert {tuple(one["provenance"]["excluded_edge_types"]) for one in records} == {(EXCLUDED,)}
    file = tmp_path / "out" / "graph.nt"  # the folder is made
    done = kgqa("kg", "export", run.path, file, "--json")
    assert json.loads(done.stdout)["files"] == [str(file)]
    store = ox.Store()
    store.load(path=str(file), format=ox.RdfFormat.N_TRIPLES)
    assert not list(store.quads_for_pattern(None, ox.NamedNode(f"urn:kgqa:relation:{EXCLUDED}"), None))
    export(run, "text-to-query", tmp_path / "queries")
    pairs = lines((tmp_path / "queries" / "train.jsonl").read_bytes())
    assert [pair["id"] for pair in pairs] == [one["id"] for one in records]
    assert all(sorted(answers_of(store, pair["query"])) == sorted(pair["answers"]) for pair in pairs)
    refused = kgqa("kg", "export", run.path, tmp_path / "graph.xyz", code=2)
    assert "use .nt, .ttl, .graphml, .csv" in refused.stderr
