"""From the whole knowledge graph to the part that questions are asked about.

As published (BioGraphletQA, section 3.1.2): nodes without a name and unwanted edge types go first; then,
once, the nodes whose degree on the simple undirected graph is too low (little to ask) or too high (the same
hub in every question).
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgqa_hpc.errors import EmptyGraphError, InputError
from kgqa_hpc.kg.graph import KnowledgeGraph


@dataclass(frozen=True, eq=False)
class Reduction:
    """What was kept and what was dropped, and why.

    `kept`: int64 (n',), positions of the kept nodes in the graph before. Each dropped node is counted once,
    under the first reason that applied; `excluded_edges` counts typed edges by type, `lost_edges` those that
    went with a node.
    """

    graph: KnowledgeGraph
    kept: npt.NDArray[np.int64]
    nodes_before: int
    edges_before: int
    unnamed: int
    below: int
    above: int
    min_degree: int
    max_degree: int
    lost_edges: int
    excluded_edges: dict[str, int] = field(default_factory=dict)

    def counts(self) -> dict[str, object]:
        """The same as plain data, for reports and file headers; `simple_edges` is the undirected count."""
        return {
            "nodes_before": self.nodes_before,
            "edges_before": self.edges_before,
            "unnamed_nodes": self.unnamed,
            "excluded_edges": dict(self.excluded_edges),
            "nodes_below_min_degree": self.below,
            "nodes_above_max_degree": self.above,
            "edges_of_dropped_nodes": self.lost_edges,
            "min_degree": self.min_degree,
            "max_degree": self.max_degree,
            "nodes": self.graph.num_nodes,
            "edges": self.graph.num_edges,
            "simple_edges": len(self.graph.csr()[1]) // 2,
        }

    def __str__(self) -> str:
        excluded = sum(self.excluded_edges.values())
        low, high = self.min_degree, self.max_degree
        return (
            f"{self.nodes_before:,} nodes, {self.edges_before:,} edges"
            f" - {self.unnamed:,} unnamed nodes - {excluded:,} edges of excluded types"
            f" - {self.below:,} nodes of degree < {low} - {self.above:,} of degree > {high}"
            f" = {self.graph.num_nodes:,} nodes, {len(self.graph.csr()[1]) // 2:,} simple edges"
        )


def reduce_graph(
    graph: KnowledgeGraph,
    *,
    exclude_edge_types: Collection[str] = (),
    min_degree: int = 3,
    max_degree: int = 100,
) -> KnowledgeGraph:
    """Keep the named nodes whose degree lies in [min_degree, max_degree]; the order is preserved.

    Degrees are counted once, on the simple undirected graph (no self-loops, no parallel edges) of the named
    nodes and the edge types that are not excluded; nodes that fall below `min_degree` only because a
    neighbour was dropped stay.

    Raises EmptyGraphError when no node or no edge between two nodes is left, InputError for an edge type to
    exclude that the graph does not have.
    """
    return reduce_with_report(
        graph, exclude_edge_types=exclude_edge_types, min_degree=min_degree, max_degree=max_degree
    ).graph


def reduce_with_report(
    graph: KnowledgeGraph,
    *,
    exclude_edge_types: Collection[str] = (),
    min_degree: int = 3,
    max_degree: int = 100,
) -> Reduction:
    """`reduce_graph` that also says what was dropped and why."""
    unwanted = _excluded_edges(graph, exclude_edge_types)
    named = _named(graph)
    clean = graph.with_edges(~unwanted).subgraph(named)
    degrees = clean.degrees()
    below, above = degrees < min_degree, degrees > max_degree
    keep = ~(below | above)
    if not keep.any():
        raise _nothing_left(clean, degrees, min_degree, max_degree)
    reduced = clean.subgraph(keep)
    if not len(reduced.csr()[1]):
        raise EmptyGraphError(
            f"the reduced graph has {reduced.num_nodes:,} nodes and no edge between two of them",
            "widen min_degree and max_degree, or exclude fewer edge types",
        )
    types, counts = np.unique(graph.edge_type[unwanted], return_counts=True)
    excluded = {graph.edge_types[code]: int(count) for code, count in zip(types, counts, strict=True)}
    return Reduction(
        graph=reduced,
        kept=np.flatnonzero(named)[keep],
        nodes_before=graph.num_nodes,
        edges_before=graph.num_edges,
        unnamed=int((~named).sum()),
        below=int(below.sum()),
        above=int(above.sum()),
        min_degree=min_degree,
        max_degree=max_degree,
        lost_edges=graph.num_edges - int(unwanted.sum()) - reduced.num_edges,
        excluded_edges=excluded,
    )


def _excluded_edges(graph: KnowledgeGraph, types: Collection[str]) -> npt.NDArray[np.bool_]:
    unknown = [name for name in types if name not in graph.edge_types]
    if unknown:
        near = difflib.get_close_matches(unknown[0], graph.edge_types, n=1, cutoff=0.5)
        known = ", ".join(sorted(graph.edge_types)[:20])
        raise InputError(
            f"exclude_edge_types: the graph has no edge type {unknown[0]!r}"
            + (f", did you mean {near[0]!r}?" if near else ""),
            f"its edge types: {known}",
        )
    codes = [code for code, name in enumerate(graph.edge_types) if name in types]
    return np.isin(graph.edge_type, codes)


def _named(graph: KnowledgeGraph) -> npt.NDArray[np.bool_]:
    names = pa.array(graph.names, type=pa.large_string())
    return pc.not_equal(pc.utf8_trim_whitespace(names), "").to_numpy(zero_copy_only=False)


def _nothing_left(
    graph: KnowledgeGraph, degrees: npt.NDArray[np.int64], min_degree: int, max_degree: int
) -> EmptyGraphError:
    if not graph.num_nodes:
        return EmptyGraphError("the graph has no node with a name", "give the nodes names: column name")
    return EmptyGraphError(
        f"none of {graph.num_nodes:,} named nodes has a degree from {min_degree} to {max_degree}"
        f" (degrees here: {degrees.min():,} to {degrees.max():,})",
        "widen min_degree and max_degree, or exclude fewer edge types",
    )
