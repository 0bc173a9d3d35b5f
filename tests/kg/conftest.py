"""Small graphs, in memory and as files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import graph_config, load_graph

Edges = Sequence[tuple[int, int, int]]


@pytest.fixture(scope="session")
def make_graph():
    """A graph of n nodes (ids n0, n1, …) from (source, target, type) rows over the edge types a, b, c."""

    def make(nodes, edges, names=None):
        columns = np.array(edges, dtype=np.int32).reshape(-1, 3)
        return KnowledgeGraph(
            node_ids=np.array([f"n{i}" for i in range(nodes)], dtype=object),
            names=np.array(names or [f"name {i}" for i in range(nodes)], dtype=object),
            node_type=np.arange(nodes, dtype=np.int32) % 2,
            node_types=("gene", "disease"),
            edge_source=columns[:, 0],
            edge_target=columns[:, 1],
            edge_type=columns[:, 2],
            edge_types=("a", "b", "c"),
        )

    return make


@pytest.fixture
def write(tmp_path):
    """Write a file exactly as given and return its path."""

    def put(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return put


def load_source(source, **settings):
    """The graph of a section `graph:` of a configuration."""
    plain = {k: [str(e) for e in v] if isinstance(v, list) else v for k, v in settings.items()}
    texts = {k: str(v) if isinstance(v, Path) else v for k, v in plain.items()}
    return load_graph(graph_config({"source": source, **texts}))


@pytest.fixture
def load():
    return load_source


@pytest.fixture(scope="session")
def edges_of():
    """(source id, type, target id) of all edges in their order."""

    def rows(graph):
        return [
            (graph.node_ids[s], graph.edge_types[t], graph.node_ids[o])
            for s, t, o in zip(graph.edge_source, graph.edge_type, graph.edge_target, strict=True)
        ]

    return rows


@pytest.fixture(scope="session")
def nodes_of():
    """(id, name, type) of all nodes in their order."""

    def rows(graph):
        return [tuple(graph.node(position)) for position in range(graph.num_nodes)]

    return rows


FILES = {
    "csv": {"nodes": "nodes.csv", "edges": "edges.csv.gz"},
    "triples": {"path": "t.tsv", "nodes": "nodes.csv"},
    "graphml": {"path": "g.graphml"},
}


@pytest.fixture
def read(write, load):
    """read(source, contents of its files …, further keys) -> the graph"""

    def graph(source, *contents, **keys):
        names = zip(FILES[source].items(), contents, strict=False)
        paths = {key: write(name, content) for (key, name), content in names if content is not None}
        return load(source, **paths, **keys)

    return graph
