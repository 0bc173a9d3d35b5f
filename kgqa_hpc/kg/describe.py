"""Describe a graph as data, text and figures: statistics, histograms, the neighbourhood of a node, nodes with a name.

`kgqa sample` writes the histograms of the imported and of the reduced graph to RUN/stats/graph.json. Texts of the graph
are shown without control characters, each on one line.
"""

from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.graph import KnowledgeGraph, components, counts_by_name
from kgqa_hpc.kg.relations import first_of_runs
from kgqa_hpc.store.atomic import make_folder, read_if_there, write_file
from kgqa_hpc.text.plain_text import printable

FILE = "graph.json"
LONGEST = 150  # letters of a name at which the histogram ends, as in Figure 9 of BioGraphletQA
_QUANTILES = (5, 25, 50, 75, 95)


class NameLengths(NamedTuple):
    """Lengths of the names of one type, in letters: number of named nodes, quantiles (5, 25, 50, 75, 95 %), maximum,
    and number of names longer than 150."""

    named: int
    quantiles: tuple[float, float, float, float, float]
    longest: int
    above: int


class Profile(NamedTuple):
    """A graph in numbers: nodes by degree on the simple undirected graph, nodes and names by type.

    Degrees ascend; types stand in falling order of size, without those that no node has.
    """

    nodes: int
    edges: int
    degrees: dict[int, int]
    node_types: dict[str, int]
    names: dict[str, NameLengths]


class Profiles(NamedTuple):
    """Statistics of the imported graph and of the reduced graph (None if no node remains)."""

    graph: Profile
    reduced: Profile | None


_STORED = TypeAdapter(Profiles)
_ROWS = 25  # largest number of rows of a table printed as text


def profile(graph: KnowledgeGraph) -> Profile:
    """The statistics of one graph."""
    degrees, nodes = np.unique(graph.degrees(), return_counts=True)
    node_types = counts_by_name(graph.node_type, graph.node_types)
    lengths = pc.utf8_length(pa.array(graph.names, pa.large_string())).to_numpy()
    names = {}
    for kind in node_types:
        of_type = lengths[(graph.node_type == graph.node_types.index(kind)) & (lengths > 0)]
        if len(of_type):
            low, lower, middle, upper, high = np.percentile(of_type, _QUANTILES).round(1).tolist()
            quantiles, above = (low, lower, middle, upper, high), int((of_type > LONGEST).sum())
            names[kind] = NameLengths(len(of_type), quantiles, int(of_type.max()), above)
    return Profile(
        graph.num_nodes,
        graph.num_edges,
        dict(zip(degrees.tolist(), nodes.tolist(), strict=True)),
        node_types,
        names,
    )


def dump_profiles(profiles: Profiles) -> bytes:
    """The bytes of stats/graph.json."""
    return _STORED.dump_json(profiles) + b"\n"


def read_profiles(path: Path) -> Profiles | None:
    """Read the file of `dump_profiles`; None if it is missing. Raises InputError if it holds something else."""
    data = read_if_there(path)
    try:
        return None if data is None else _STORED.validate_json(data)
    except ValidationError:
        raise InputError(f"{path}: is not what kgqa sample wrote", "remove it") from None


def draw_figures(folder: Path, profiles: Profiles) -> None:
    """Write degrees.png, name_lengths.png and node_types.png (as in BioGraphletQA's Figures 3, 9 and 10).

    Raises InputError when matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("drawing needs matplotlib", "pip install 'kgqa_hpc[report]'") from None
    names = ("degrees", "name_lengths", "node_types")
    figures = {name: Figure(figsize=(8, 5), layout="constrained") for name in names}
    degrees, lengths, types = (figure.subplots() for figure in figures.values())
    both = {label: entry for label, entry in profiles._asdict().items() if entry}
    kinds, width = list(profiles.graph.node_types)[:20], 0.8 / len(both)
    for number, (label, entry) in enumerate(both.items()):
        points = np.array([point for point in entry.degrees.items() if point[0]]).reshape(-1, 2)
        degrees.plot(points[:, 0], points[:, 1], ".", label=label)
        shares = [entry.node_types.get(kind, 0) / max(entry.nodes, 1) for kind in kinds]
        types.barh(np.arange(len(kinds)) + number * width, shares, width, label=label)
    degrees.set(xscale="log", yscale="log", xlabel="degree", ylabel="nodes", title="Degrees of nodes")
    degrees.legend()
    if named := list(profiles.graph.names.items())[:12]:
        low, _, middle, _, high = np.minimum([entry.quantiles for _, entry in named], LONGEST).T
        lengths.hlines(range(len(named)), low, high)
        lengths.plot(middle, range(len(named)), "o")
        lengths.set_yticks(range(len(named)), [kind[:30] for kind, _ in named])
    lengths.set(xlabel=f"letters (at most {LONGEST})", title="Lengths of names: median, 5 to 95 %")
    types.set_yticks(np.arange(len(kinds)) + 0.4 - width / 2, [kind[:30] for kind in kinds])
    types.invert_yaxis()
    types.set(xlabel="share of nodes", title="Types of nodes")
    types.legend()
    make_folder(folder)
    for name, figure in figures.items():
        sink = BytesIO()
        figure.savefig(sink, format="png", dpi=120, metadata={"Software": None})
        write_file(folder / f"{name}.png", sink.getvalue())


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
    sizes = np.bincount(components(indptr, indices))
    pairs = graph.edge_source.astype(np.int64) << 32 | graph.edge_target
    order = np.lexsort((graph.edge_type, pairs))
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "node_types": counts_by_name(graph.node_type, graph.node_types),
        "edge_types": counts_by_name(graph.edge_type, graph.edge_types),
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


def _relations(graph: KnowledgeGraph) -> list[dict[str, Any]]:
    """Edges by type of source, of edge and of target; the most frequent first."""
    import pandas as pd

    ends = graph.node_type[graph.edge_source], graph.edge_type, graph.node_type[graph.edge_target]
    counts: Any = pd.DataFrame(dict(enumerate(ends))).groupby([0, 1, 2]).size()
    return [
        {
            "source": graph.node_types[source],
            "type": graph.edge_types[kind],
            "target": graph.node_types[target],
            "edges": count,
        }
        for (source, kind, target), count in counts.sort_values(ascending=False, kind="stable").items()
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
    """Nodes whose name or id contains a text, ignoring case: their number, and the `limit` with the shortest names."""
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
    shortest, degrees = sorted(hits.tolist(), key=lambda hit: len(graph.names[hit]))[:limit], graph.degrees()
    nodes = [{**graph.node(hit)._asdict(), "degree": int(degrees[hit])} for hit in shortest]
    return {"total": len(hits), "nodes": nodes}


def _properties(columns: Mapping[str, pa.Array], row: int) -> dict[str, Any]:
    values = {name: column[row].as_py() for name, column in columns.items()}
    return {name: value for name, value in values.items() if value is not None}


def stats_text(document: dict[str, Any]) -> str:
    """The result of `stats` as text, with that of the `reduced` graph if given."""
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
    """The result of `neighbourhood` as text, with the first `limit` edges."""
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
    """The result of `find` as text."""
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
