"""Describe a graph as data and as text: statistics, the neighbourhood of a node, nodes with a given name.

Foreign texts are shown on one line.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg import connectivity
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.relations import first_of_runs
from kgqa_hpc.text.plain_text import printable


def stats(graph: KnowledgeGraph) -> dict[str, Any]:
    """Nodes and edges by type, relation types with direction, degrees, components, properties.

    `edges` counts the rows of the input, `distinct_edges` the distinct (source, type, target),
    `directed_pairs` and `simple_edges` pairs of nodes, the latter without direction and loops. `degrees` are
    those of the simple undirected graph; `histogram`: number of nodes by degree, in powers of two.
    """
    indptr, indices = graph.csr()
    degrees = np.diff(indptr)
    bins = np.append(0, 2 ** np.arange(0, 33))
    nodes, _ = np.histogram(degrees, bins)
    sizes = np.bincount(connectivity.components(indptr, indices))
    pairs = graph.edge_source.astype(np.int64) << 32 | graph.edge_target
    order = np.lexsort((graph.edge_type, pairs))
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "node_types": _counts(graph.node_type, graph.node_types),
        "edge_types": _counts(graph.edge_type, graph.edge_types),
        "distinct_edges": int((first_of_runs(pairs[order]) | first_of_runs(graph.edge_type[order])).sum()),
        "directed_pairs": len(np.unique(pairs)),
        "simple_edges": len(indices) // 2,
        "self_loops": int((graph.edge_source == graph.edge_target).sum()),
        "unnamed": int((graph.names == "").sum()),
        "distinct_names": len(pc.unique(pa.array(graph.names, pa.large_string()))) - int("" in graph.names),
        "degrees": {
            "mean": round(float(degrees.mean()), 3) if len(degrees) else 0.0,
            "median": float(np.median(degrees)) if len(degrees) else 0.0,
            "max": int(degrees.max(initial=0)),
            "histogram": {
                str(int(low)): int(count) for low, count in zip(bins, nodes, strict=False) if count
            },
        },
        "components": {"number": len(sizes), "largest": int(sizes.max(initial=0))},
        "relations": _relations(graph),
        "properties": {"nodes": list(graph.node_properties), "edges": list(graph.edge_properties)},
        "attributes": dict(graph.attributes),
    }


def _counts(codes: npt.NDArray[np.int32], names: tuple[str, ...]) -> dict[str, int]:
    counts = np.bincount(codes, minlength=len(names))
    return {names[code]: int(counts[code]) for code in np.argsort(-counts, kind="stable") if counts[code]}


def _relations(graph: KnowledgeGraph) -> list[dict[str, Any]]:
    """Edges by type of source, of edge and of target; the most frequent first."""
    sizes = len(graph.node_types), len(graph.edge_types)
    source_types = graph.node_type[graph.edge_source].astype(np.int64)
    key = (source_types * sizes[1] + graph.edge_type) * sizes[0] + graph.node_type[graph.edge_target]
    distinct, counts = np.unique(key, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [
        {
            "source": graph.node_types[kind // sizes[0] // sizes[1]],
            "type": graph.edge_types[kind // sizes[0] % sizes[1]],
            "target": graph.node_types[kind % sizes[0]],
            "edges": int(count),
        }
        for kind, count in zip(distinct[order].tolist(), counts[order], strict=True)
    ]


def place_of(graph: KnowledgeGraph, name: str) -> int:
    """Position of the node with this id, else of the only node with this name (case ignored).

    Raises InputError when there is none, or when several have the name, with their ids.
    """
    hits = np.flatnonzero(graph.node_ids == name)
    if len(hits):
        return int(hits[0])
    names = pc.utf8_lower(pa.array(graph.names, pa.large_string()))
    hits = np.flatnonzero(pc.equal(names, name.lower()).to_numpy(zero_copy_only=False))
    if len(hits) == 1:
        return int(hits[0])
    if len(hits):
        ids = ", ".join(map(str, graph.node_ids[hits[:10]]))
        raise InputError(f"{len(hits):,} nodes are named {name!r}", f"say which by its id: {ids}")
    raise InputError(
        f"no node has the id or the name {name!r}", "look for parts of names: kgqa kg find RUN TEXT"
    )


def neighbourhood(graph: KnowledgeGraph, position: int) -> dict[str, Any]:
    """A node, its properties, and all edges at it with direction, in the order of the graph."""
    node = graph.node(position)
    rows = np.flatnonzero((graph.edge_source == position) | (graph.edge_target == position))
    edges = []
    for row in rows.tolist():
        out = graph.edge_source[row] == position
        neighbour = graph.node(int(graph.edge_target[row] if out else graph.edge_source[row]))
        edges.append(
            {
                "direction": "out" if out else "in",
                "type": graph.edge_types[graph.edge_type[row]],
                "node": neighbour._asdict(),
                "properties": _properties(graph.edge_properties, row),
            }
        )
    neighbour_ids = {edge["node"]["id"] for edge in edges} - {node.id}
    properties = _properties(graph.node_properties, position)
    return {**node._asdict(), "degree": len(neighbour_ids), "properties": properties, "edges": edges}


def find(graph: KnowledgeGraph, text: str, kind: str | None, limit: int) -> dict[str, Any]:
    """Nodes whose name or id holds a text, case ignored: how many, and `limit` with the shortest names."""
    names = pa.array(graph.names, pa.large_string())
    ids = pa.array(graph.node_ids, pa.large_string())
    hit = pc.or_(*(pc.match_substring(column, text, ignore_case=True) for column in (names, ids)))
    hits = np.flatnonzero(hit.to_numpy(zero_copy_only=False))
    if kind is not None:
        if kind not in graph.node_types:
            raise InputError(
                f"the graph has no node type {kind!r}", f"it has {', '.join(graph.node_types[:20])}"
            )
        hits = hits[graph.node_type[hits] == graph.node_types.index(kind)]
    order = np.argsort([len(graph.names[hit]) for hit in hits], kind="stable") if len(hits) else hits
    degrees = graph.degrees()
    return {
        "total": len(hits),
        "nodes": [
            {**graph.node(int(hit))._asdict(), "degree": int(degrees[hit])} for hit in hits[order][:limit]
        ],
    }


def _properties(columns: Mapping[str, pa.Array], row: int) -> dict[str, Any]:
    values = {name: column[row].as_py() for name, column in columns.items()}
    return {name: value for name, value in values.items() if value is not None}


_ROWS = 25


def stats_text(document: dict[str, Any]) -> str:
    """The result of `look.stats` as text, with that of the `reduced` graph if given."""
    reduced = document.get("reduced")
    lines = [_figures("graph", document)]
    if reduced:
        lines.append(_figures("reduced", reduced))
    for title, key in (("node type", "node_types"), ("edge type", "edge_types")):
        lines.append(f"\n{title:<50}{'graph':>14}" + (f"{'reduced':>14}" if reduced else ""))
        lines += _rows(
            f"{one_line(name, 48):<50}{count:>14,}" + (f"{reduced[key].get(name, 0):>14,}" if reduced else "")
            for name, count in document[key].items()
        )
    lines.append("\nrelations")
    lines += _rows(
        f"{row['edges']:>14,}  {one_line(row['source'], 30)} -[{one_line(row['type'], 40)}]-> "
        f"{one_line(row['target'], 30)}"
        for row in document["relations"]
    )
    return "\n".join(lines)


def _figures(title: str, values: dict[str, Any]) -> str:
    degrees, components = values["degrees"], values["components"]
    return (
        f"{title:<8} {values['nodes']:,} nodes ({values['unnamed']:,} unnamed), {values['edges']:,} edges"
        f" ({values['distinct_edges']:,} distinct, {values['self_loops']:,} loops),"
        f" {values['simple_edges']:,} simple edges\n"
        f"{'':<8} degree {degrees['mean']:,} on average, median {degrees['median']:g}, at most "
        f"{degrees['max']:,}"
        f" · {components['number']:,} components, the largest of {components['largest']:,} nodes"
    )


def node_text(document: dict[str, Any], limit: int) -> str:
    """The result of `look.neighbourhood` as text, with the first `limit` edges."""
    lines = [_node(document)]
    for name, value in document["properties"].items():
        lines.append(f"  {one_line(name, 30)}: {one_line(str(value))}")
    edges = document["edges"]
    lines.append(f"{document['degree']:,} neighbours, {len(edges):,} edges")
    for edge in edges[:limit]:
        kind = f"-[{one_line(edge['type'], 40)}]-"
        arrow = f"{kind}>" if edge["direction"] == "out" else f"<{kind}"
        lines.append(f"  {arrow} {_node(edge['node'])}")
    if len(edges) > limit:
        lines.append(f"  … {len(edges) - limit:,} more (-n)")
    return "\n".join(lines)


def _node(node: dict[str, Any]) -> str:
    return f"{one_line(node['name']) or '(no name)'}  {one_line(node['id'])}  [{one_line(node['type'], 40)}]"


def found_text(document: dict[str, Any]) -> str:
    """The result of `look.find` as text."""
    lines = [f"{node['degree']:>9,}  {_node(node)}" for node in document["nodes"]]
    if more := document["total"] - len(lines):
        lines.append(f"… {more:,} more (-n)")
    return "\n".join(lines) or "nothing found"


def one_line(text: str, limit: int = 120) -> str:
    """A foreign text made safe for a terminal: no control characters, on one line, not too long."""
    text = printable(text[: 4 * limit])
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _rows(rows: Iterable[str]) -> list[str]:
    lines, more = list(rows), "more (--json has all)"
    return lines if len(lines) <= _ROWS else [*lines[:_ROWS], f"… {len(lines) - _ROWS:,} {more}"]
