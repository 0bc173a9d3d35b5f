"""Histograms of a graph for the report's figures: degrees, names and types (BioGraphletQA, Figures 3, 9, 10).

`kgqa sample` keeps it for the graph as read and for the reduced one in RUN/stats/graph.json.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.graph import KnowledgeGraph, simple_csr
from kgqa_hpc.store.regular import read_if_there

FILE = "graph.json"
LONGEST = 150  # letters; Figure 9 cuts there
_QUANTILES = (5, 25, 50, 75, 95)


class NameLengths(NamedTuple):
    """Letters of the names of one type: nodes with a name; 5, 25, 50, 75, 95 % quantiles; longest; names above 150."""

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
    """Of the graph as it was read, and as it was reduced (None where the reduction leaves nothing)."""

    graph: Profile
    reduced: Profile | None


_STORED = TypeAdapter(Profiles)


def profile(graph: KnowledgeGraph) -> Profile:
    """The numbers of one graph."""
    # Not graph.degrees(), which would keep its rows in memory.
    indptr, _ = simple_csr(graph.num_nodes, graph.edge_source, graph.edge_target)
    degrees, nodes = np.unique(np.diff(indptr), return_counts=True)
    sizes = np.bincount(graph.node_type, minlength=len(graph.node_types))
    lengths = pc.utf8_length(pa.array(graph.names, pa.large_string())).to_numpy()
    order = [code for code in np.argsort(-sizes, kind="stable") if sizes[code]]
    by_type = {code: lengths[(graph.node_type == code) & (lengths > 0)] for code in order}
    return Profile(
        graph.num_nodes,
        graph.num_edges,
        dict(zip(degrees.tolist(), nodes.tolist(), strict=True)),
        {graph.node_types[code]: int(sizes[code]) for code in order},
        {
            graph.node_types[code]: _lengths(type_lengths)
            for code, type_lengths in by_type.items()
            if len(type_lengths)
        },
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


def _lengths(lengths: np.ndarray) -> NameLengths:
    low, lower, middle, upper, high = np.percentile(lengths, _QUANTILES).round(1).tolist()
    return NameLengths(
        len(lengths), (low, lower, middle, upper, high), int(lengths.max()), int((lengths > LONGEST).sum())
    )
