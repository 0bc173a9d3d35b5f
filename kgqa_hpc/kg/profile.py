"""Histograms of a graph for the report's figures: degrees, names and types (BioGraphletQA, Figures 3, 9, 10).

`kgqa sample` writes the histograms of the imported and of the reduced graph to RUN/stats/graph.json;
`draw_figures` draws them as PNG (`kgqa kg stats --figures`).
"""

from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.graph import KnowledgeGraph, simple_csr
from kgqa_hpc.store.atomic import make_folder, read_if_there, write_file

FILE = "graph.json"
LONGEST = 150  # letters; Figure 9 cuts there
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


def profile(graph: KnowledgeGraph) -> Profile:
    """The statistics of one graph."""
    # graph.degrees() is not used, because it would keep its rows in memory.
    indptr, _ = simple_csr(graph.num_nodes, graph.edge_source, graph.edge_target)
    degrees, nodes = np.unique(np.diff(indptr), return_counts=True)
    sizes = np.bincount(graph.node_type, minlength=len(graph.node_types))
    lengths = pc.utf8_length(pa.array(graph.names, pa.large_string())).to_numpy()
    order = [code for code in np.argsort(-sizes, kind="stable") if sizes[code]]
    names = {}
    for code in order:
        of_type = lengths[(graph.node_type == code) & (lengths > 0)]
        if len(of_type):
            low, lower, middle, upper, high = np.percentile(of_type, _QUANTILES).round(1).tolist()
            quantiles, above = (low, lower, middle, upper, high), int((of_type > LONGEST).sum())
            names[graph.node_types[code]] = NameLengths(len(of_type), quantiles, int(of_type.max()), above)
    return Profile(
        graph.num_nodes,
        graph.num_edges,
        dict(zip(degrees.tolist(), nodes.tolist(), strict=True)),
        {graph.node_types[code]: int(sizes[code]) for code in order},
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


def draw_figures(folder: Path, profiles: Profiles) -> list[Path]:
    """Write degrees.png, name_lengths.png and node_types.png; returns their paths.

    Raises InputError when matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("drawing needs matplotlib", "pip install 'kgqa_hpc[report]'") from None
    make_folder(folder)
    paths = []
    for name, draw in (("degrees", _degrees), ("name_lengths", _name_lengths), ("node_types", _node_types)):
        figure = Figure(figsize=(8, 5), layout="constrained")
        draw(figure.subplots(), {label: entry for label, entry in profiles._asdict().items() if entry})
        sink = BytesIO()
        figure.savefig(sink, format="png", dpi=120, metadata={"Software": None})
        paths.append(folder / f"{name}.png")
        write_file(paths[-1], sink.getvalue())
    return paths


def _degrees(axes: Any, profiles: dict[str, Profile]) -> None:
    for label, entry in profiles.items():
        points = np.array([point for point in entry.degrees.items() if point[0]]).reshape(-1, 2)
        axes.plot(points[:, 0], points[:, 1], ".", label=label)
    axes.set(xscale="log", yscale="log", xlabel="degree", ylabel="nodes", title="Degrees of nodes")
    axes.legend()


def _name_lengths(axes: Any, profiles: dict[str, Profile]) -> None:
    there = list(profiles["graph"].names.items())[:12]
    if there:
        low, _, middle, _, high = np.minimum([entry.quantiles for _, entry in there], LONGEST).T
        axes.hlines(range(len(there)), low, high)
        axes.plot(middle, range(len(there)), "o")
        axes.set_yticks(range(len(there)), [name[:30] for name, _ in there])
    axes.set(xlabel=f"letters (at most {LONGEST})", title="Lengths of names: median, 5 to 95 %")


def _node_types(axes: Any, profiles: dict[str, Profile]) -> None:
    names = list(profiles["graph"].node_types)[:20]
    width = 0.8 / len(profiles)
    for number, (label, entry) in enumerate(profiles.items()):
        shares = [entry.node_types.get(name, 0) / max(entry.nodes, 1) for name in names]
        axes.barh(np.arange(len(names)) + number * width, shares, width, label=label)
    axes.set_yticks(np.arange(len(names)) + 0.4 - width / 2, [name[:30] for name in names])
    axes.invert_yaxis()
    axes.set(xlabel="share of nodes", title="Types of nodes")
    axes.legend()
