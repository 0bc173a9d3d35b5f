"""Small graphs, in memory and as files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from kgqa_hpc.kg.graph import KnowledgeGraph

Edges = Sequence[tuple[int, int, int]]


@pytest.fixture(scope="session")
def make_graph() -> Callable[..., KnowledgeGraph]:
    """A graph of n nodes (ids n0, n1, …) from (source, target, type) rows over the edge types a, b, c."""

    def make(nodes: int, edges: Edges, names: Sequence[str] | None = None) -> KnowledgeGraph:
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
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Write a file exactly as given and return its path."""

    def put(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return put
