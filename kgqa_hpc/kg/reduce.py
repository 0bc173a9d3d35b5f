"""Reduce the whole knowledge graph to the part that questions are asked about.

As published (BioGraphletQA, section 3.1.2): nodes without a name and unwanted edge types go first; then,
once, the nodes whose degree on the simple undirected graph is too low (little to ask) or too high (the same
hub in every question). Our additions: excluded node types are dropped with the unnamed nodes; after the
degrees, a k-core and the largest component can be selected. Dropped nodes and edges are counted by reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgqa_hpc.errors import EmptyGraphError
from kgqa_hpc.kg.graph import KnowledgeGraph, Mask, components, counts_by_name, of_types
from kgqa_hpc.kg.relations import Int64

if TYPE_CHECKING:
    from kgqa_hpc.kg.settings import GraphConfig

_PARTS = {
    "nodes_outside_k_core": "outside the k-core",
    "nodes_outside_largest_component": "outside the largest component",
}


@dataclass(frozen=True, eq=False)
class Reduction:
    """The reduced graph, and counts of the dropped nodes and edges by reason, as plain data.

    `nodes`: int64 (n',), positions of the kept nodes in the graph before. Each dropped node is counted once,
    under the first reason that applied; `excluded_edges` counts typed edges by type, `excluded_nodes` nodes by
    type, `edges_of_dropped_nodes` the edges lost with a node, `simple_edges` the undirected edges that remain.
    """

    graph: KnowledgeGraph
    nodes: Int64
    counts: dict[str, Any]

    def __str__(self) -> str:
        counts, excluded = self.counts, self.counts.get("excluded_nodes", {})
        reasons = [
            f"{counts['unnamed_nodes']:,} unnamed nodes",
            f"{sum(counts['excluded_edges'].values()):,} edges of excluded types",
            f"{counts['nodes_below_min_degree']:,} nodes of degree < {counts['min_degree']}",
            f"{counts['nodes_above_max_degree']:,} of degree > {counts['max_degree']}",
        ]
        if excluded:
            reasons.insert(0, f"{sum(excluded.values()):,} nodes of excluded types")
        for key, reason in _PARTS.items():
            if key in counts:
                reasons.append(f"{counts[key]:,} {reason}")
        whole = f"{counts['nodes_before']:,} nodes, {counts['edges_before']:,} edges"
        remaining = f"{counts['nodes']:,} nodes, {counts['simple_edges']:,} simple edges"
        return f"{' - '.join([whole, *reasons])} = {remaining}"


@dataclass(frozen=True, eq=False)
class AnswerGraph:
    """The graph that answers are computed on: all named nodes of the imported graph, without excluded edge types.

    `positions`: int64 (n',), the position in `graph` of each node of the reduced graph. `unnamed` says
    whether nodes without a name were left out: a query on the exported graph has to leave them out as well.
    `every_edge`: the same nodes with the edges of excluded types, too; wrong options share none of them.
    """

    graph: KnowledgeGraph
    positions: Int64
    unnamed: bool
    every_edge: KnowledgeGraph

    @classmethod
    def of_reduced(cls, graph: KnowledgeGraph) -> AnswerGraph:
        """The answer graph of a graph that was not reduced: the graph itself."""
        return cls(graph, np.arange(graph.num_nodes), False, graph)

    @classmethod
    def of(cls, graph: KnowledgeGraph, reduction: Reduction) -> AnswerGraph:
        """Build the answer graph from the imported graph and its reduction."""
        unwanted = [
            code for code, name in enumerate(graph.edge_types) if name in reduction.counts["excluded_edges"]
        ]
        named = _named(graph)
        every_edge = graph.subgraph(named)
        whole = every_edge.with_edges(~np.isin(every_edge.edge_type, unwanted))
        return cls(whole, (np.cumsum(named) - 1)[reduction.nodes], not named.all(), every_edge)


def reduce_to(graph: KnowledgeGraph, limits: GraphConfig) -> Reduction:
    """The part of a graph that a configuration selects; the order of nodes and edges is preserved.

    Degrees are counted once, on the simple undirected graph (no self-loops, no parallel edges) of the named
    nodes and the edge types that are not excluded; nodes that fall below `min_degree` only because a
    neighbour was dropped stay.

    Raises EmptyGraphError when no node or no edge between two nodes is left, InputError for an edge type or a
    node type that the graph does not have.
    """
    unwanted = of_types("exclude_edge_types", limits.exclude_edge_types, graph.edge_type, graph.edge_types)
    typed = ~of_types(
        "exclude_node_types", limits.exclude_node_types or (), graph.node_type, graph.node_types
    )
    if limits.node_types is not None:
        typed &= of_types("node_types", limits.node_types, graph.node_type, graph.node_types)
    named = _named(graph)
    usable = typed & named
    clean = graph.with_edges(~unwanted).subgraph(usable)
    degrees = clean.degrees()
    below, above = degrees < limits.min_degree, degrees > limits.max_degree
    keep = ~(below | above)
    if not clean.num_nodes:
        raise EmptyGraphError("the graph has no node with a name", "give the nodes names: column name")
    if not keep.any():
        raise EmptyGraphError(
            f"none of {clean.num_nodes:,} named nodes has a degree from {limits.min_degree} to {limits.max_degree}"
            f" (degrees here: {degrees.min():,} to {degrees.max():,})",
            "widen min_degree and max_degree, or exclude fewer edge types",
        )
    reduced, origins, lost = _connected(clean.subgraph(keep), limits)
    if not len(reduced.csr()[1]):
        raise EmptyGraphError(
            f"the reduced graph has {reduced.num_nodes:,} nodes and no edge between two of them",
            "widen min_degree and max_degree, or exclude fewer edge types",
        )
    counts = {
        "nodes_before": graph.num_nodes,
        "edges_before": graph.num_edges,
        "unnamed_nodes": int((typed & ~named).sum()),
        "excluded_edges": counts_by_name(graph.edge_type[unwanted], graph.edge_types),
        "nodes_below_min_degree": int(below.sum()),
        "nodes_above_max_degree": int(above.sum()),
        "edges_of_dropped_nodes": graph.num_edges - int(unwanted.sum()) - reduced.num_edges,
        "min_degree": limits.min_degree,
        "max_degree": limits.max_degree,
        "nodes": reduced.num_nodes,
        "edges": reduced.num_edges,
        "simple_edges": len(reduced.csr()[1]) // 2,
    }
    excluded_nodes = counts_by_name(graph.node_type[~typed], graph.node_types)
    beyond = {"excluded_nodes": excluded_nodes, **dict(zip(_PARTS, lost, strict=True))}
    counts |= {name: value for name, value in beyond.items() if value}
    return Reduction(reduced, np.flatnonzero(usable)[keep][origins], counts)


def _connected(graph: KnowledgeGraph, limits: GraphConfig) -> tuple[KnowledgeGraph, Int64, list[int]]:
    """Select the k-core, then the largest component; returns the graph, the previous positions of its nodes,
    and the numbers of nodes that the two steps dropped.
    """
    origins = np.arange(graph.num_nodes)
    lost = [0, 0]
    if limits.k_core is not None:
        from kgqa_hpc.kg.kernels import k_core  # imported here: numba loads slowly

        keep = k_core(*graph.csr(), limits.k_core)
        graph, origins, lost[0] = graph.subgraph(keep), origins[keep], int((~keep).sum())
        if not graph.num_nodes:
            raise EmptyGraphError(f"the reduced graph has no {limits.k_core}-core", "lower graph.k_core")
    if limits.largest_component:
        component = components(*graph.csr())
        # Of equally large components, the one with the first node.
        keep = component == np.argmax(np.bincount(component))
        graph, origins, lost[1] = graph.subgraph(keep), origins[keep], int((~keep).sum())
    return graph, origins, lost


def _named(graph: KnowledgeGraph) -> Mask:
    names = pa.array(graph.names, type=pa.large_string())
    named: Mask = pc.not_equal(pc.utf8_trim_whitespace(names), "").to_numpy(zero_copy_only=False)
    return named
