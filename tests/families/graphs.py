"""Small graphs for the families of questions, and the anchors drawn from them."""

import random
from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.anchor import Anchor, Source, Tools
from kgqa_hpc.kg.file import export_graph
from kgqa_hpc.kg.graph import KnowledgeGraph


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
