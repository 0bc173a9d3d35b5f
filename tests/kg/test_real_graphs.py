"""Real graphs against figures that an independent program counted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kgqa_hpc.kg.reduce import Wanted, reduce_to
from kgqa_hpc.kg.sources.csv import read_csv

SHARED = Path(__file__).parents[3] / "shared" / "data" / "kg"
GRAPHS = sorted(path.parent for path in SHARED.glob("*/nodes.csv.gz"))

pytestmark = pytest.mark.skipif(not GRAPHS, reason="SHARED DATA NOT HERE")


def _counts(codes, names):
    counts = dict(zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True))
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize("folder", GRAPHS, ids=lambda path: path.name)
def test_reading_and_reduction_give_the_known_figures(folder):
    known = json.loads((folder / "stats.json").read_text())
    graph = read_csv(folder / "nodes.csv.gz", folder / "edges.csv.gz")
    degrees = graph.degrees()
    report = reduce_to(graph, Wanted())
    reduced = report.graph
    found = {
        "nodes": graph.num_nodes,
        "edge_rows": graph.num_edges,
        "undirected_simple_edges": len(graph.csr()[1]) // 2,
        "self_loops": int((graph.edge_source == graph.edge_target).sum()),
        "isolated": int((degrees == 0).sum()),
        "node_types": _counts(graph.node_type, graph.node_types),
        "edge_types": _counts(graph.edge_type, graph.edge_types),
        "unnamed": report.unnamed,
        "dup_names": graph.num_nodes - len(set(graph.names)),
        "max_degree": int(degrees.max()),
        "median_degree": int(np.median(degrees)),
        "deg_lt3": report.below,
        "deg_gt100": report.above,
        "reduced_nodes": reduced.num_nodes,
        "reduced_edges": len(reduced.csr()[1]) // 2,
        "reduced_isolated": int((reduced.degrees() == 0).sum()),
        "reduced_node_types": _counts(reduced.node_type, reduced.node_types),
    }
    assert found == {key: known[key] for key in found}
