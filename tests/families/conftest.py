"""Small graphs for the families of questions, the anchors drawn from them, and their runs up to the dataset."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from kgqa_hpc import stages
from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.anchor import Anchor, Source, Tools
from kgqa_hpc.kg.file import export_graph
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.store.run_folder import RunFolder
from tests.command import kgqa
from tests.waiting import wait_for
from tests.work.rig import Processes, answers_kept, reconfigure


def graph_of(
    names: list[str], kinds: list[str], edges: list[tuple[int, str, int]], **more: Any
) -> KnowledgeGraph:
    """A graph from lists; ids are N0, N1, …"""
    node_types, edge_types = sorted(set(kinds)), sorted({kind for _, kind, _ in edges})
    return KnowledgeGraph(
        node_ids=np.array([f"N{number}" for number in range(len(names))], object),
        names=np.array(names, object),
        node_type=np.array([node_types.index(kind) for kind in kinds], np.int32),
        node_types=tuple(node_types),
        edge_source=np.array([source for source, _, _ in edges], np.int32),
        edge_target=np.array([target for _, _, target in edges], np.int32),
        edge_type=np.array([edge_types.index(kind) for _, kind, _ in edges], np.int32),
        edge_types=tuple(edge_types),
        **more,
    )


def random_graph(seed: int, nodes: int, edges: int) -> KnowledgeGraph:
    """Random typed edges, with loops and parallel ones."""
    chance = random.Random(seed)
    kinds = [chance.choice(["drug", "gene", "disease"]) for _ in range(nodes)]
    found = [
        (chance.randrange(nodes), chance.choice(["hits", "causes"]), chance.randrange(nodes))
        for _ in range(edges)
    ]
    return graph_of([f"name {number}" for number in range(nodes)], kinds, found)


def as_tables(graph: KnowledgeGraph, folder: Path) -> dict[str, str]:
    """The graph as two tables in a folder, and the keys of `graph:` that name them."""
    nodes, edges = export_graph(graph, [], folder / "graph.csv")
    return {"source": "csv", "nodes": str(nodes), "edges": str(edges)}


def draw(source: Source | KnowledgeGraph, kind: str, seed: int = 1, **settings: Any) -> list[Anchor]:
    """The anchors of a kind, from a graph or from a reduction with its whole graph."""
    source = Source(source) if isinstance(source, KnowledgeGraph) else source
    entry = KINDS.get(kind)
    return list(entry().draw(source, entry.Settings(**settings), seed, Tools()).anchors)


@pytest.fixture
def films() -> KnowledgeGraph:
    """Who directed what, who played in it; Vagabond has one actress, Cleo from 5 to 7 two."""
    names = ["Agnes Varda", "Vagabond", "Cleo from 5 to 7"]
    names += ["Sandrine Bonnaire", "Corinne Marchand", "Dorothee Blanck"]
    kinds = ["director", "film", "film", "actor", "actor", "actor"]
    edges = [(0, "directed", 1), (0, "directed", 2)]
    edges += [(actor, "played in", film) for actor, film in ((3, 1), (4, 2), (5, 2))]
    return graph_of(names, kinds, edges)


def sampled(folder: Path, config: dict[str, Any]) -> RunFolder:
    """The run of a configuration in folder/run, its anchors drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    run = stages.init(folder / "run.yaml", folder / "run")
    stages.import_graph(run.path)
    stages.sample(run.path)
    return run


def dataset(run: RunFolder) -> dict[str, bytes]:
    stages.merge(run.path)
    return {path.name: path.read_bytes() for path in sorted(run.dataset.glob("*.jsonl"))}


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def finished(run: RunFolder) -> dict[str, bytes]:
    kgqa("run", run.path)
    return dataset(run)


def whole_and_killed(prepare: Callable[..., RunFolder], processes: Processes) -> list[dict[str, bytes]]:
    """The datasets of a run with faults, and of the same run killed twice; `prepare` takes its name and engine."""
    faults = {"garbage": 0.05, "truncate": 0.05, "error": 0.02}
    whole = finished(prepare("whole", faults=faults))
    # At least half a minute in all: no run ends before it is killed.
    slow = {"batch": 4, "per_request_s": 0.6}
    killed = prepare("killed", faults=faults, latency=slow)
    for _ in range(2):
        before = answers_kept(killed)
        process = processes.start(killed)
        wait_for(lambda: answers_kept(killed) > before + 2000 or process.poll() is not None, "answers")  # noqa: B023
        assert process.poll() is None
        process.kill()
        process.wait()
    reconfigure(killed, engine={"latency": {"batch": 4}})
    return [whole, finished(killed)]
