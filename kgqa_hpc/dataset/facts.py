"""What a dataset's card says about its run: the graph and its licence, the sample, the seed."""

from __future__ import annotations

import csv
from typing import Any

from kgqa_hpc.dataset.card import Facts
from kgqa_hpc.dataset.read import run_config
from kgqa_hpc.store.anchors import KIND as ANCHORS
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import read_header

GRAPH = "knowledge-graph"
GRAPH_VERSION = 2
UNKNOWN_LICENCE = "unknown"  # an identifier of the Hub; `dataset.licence` in the configuration states it
# What graph sources say about themselves, in the order of the card.
_ATTRIBUTES = ("title", "source", "version", "licence", "licence_url", "licence_terms", "citation")
_COUNTS = {
    "nodes_before": "nodes",
    "edges_before": "edges",
    "nodes": "nodes after reduction",
    "simple_edges": "edges after reduction",
    "min_degree": "minimum degree",
    "max_degree": "maximum degree",
}


def gather_facts(run: RunFolder, version: str) -> Facts:
    """The facts of a run; `version` is that of this program."""
    config = run_config(run)
    attributes = _graph_attributes(run)
    licence = config.dataset.licence or attributes.get("licence") or UNKNOWN_LICENCE
    reduction = _anchors_header(run).get("reduction") or {}
    graph = {
        "source": config.graph.source,
        **{key: attributes[key] for key in _ATTRIBUTES if attributes.get(key)},
        "licence": licence,
        **{label: reduction[key] for key, label in _COUNTS.items() if key in reduction},
        "graphlets sampled per shape": config.anchors.per_shape,
    }
    return Facts(run.manifest().digest, config.seed, licence, version, graph)


def shape_totals(run: RunFolder) -> dict[int, int]:
    """How many graphlets of each shape the reduced graph holds, as `kgqa sample` counted them."""
    if totals := _anchors_header(run).get("totals"):
        return {int(shape): int(total) for shape, total in totals.items()}
    path = run.stats / "graphlets.csv"
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {int(row["id"]): int(row["total"]) for row in csv.DictReader(file)}


def _graph_attributes(run: RunFolder) -> dict[str, Any]:
    if not run.kg.exists():
        return {}
    attributes: dict[str, Any] = read_header(run.kg, GRAPH, GRAPH_VERSION).get("attributes") or {}
    return attributes


def _anchors_header(run: RunFolder) -> dict[str, Any]:
    return read_header(run.anchors, ANCHORS)
