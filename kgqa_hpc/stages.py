"""The stages of a run in their order: init, import, sample, run, merge, report. Read this file first.

Each stage is a few lines over the rooms that do the work. A stage that finds its output whole keeps it, so
that every command can be repeated.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kgqa_hpc.config import GraphConfig, RunConfig, load_config
from kgqa_hpc.errors import EmptyGraphError, InputError
from kgqa_hpc.store.run_folder import RunFolder

if TYPE_CHECKING:
    from kgqa_hpc.graphlets.plan import Plan
    from kgqa_hpc.kg.graph import KnowledgeGraph
    from kgqa_hpc.kg.reduce import Reduction


def init(config_file: Path, folder: Path) -> RunFolder:
    """Check all that can be checked without work, then create the folder; a known one is only compared.

    Raises ConfigError, PromptError, or FingerprintMismatch when the folder belongs to another configuration.
    """
    from kgqa_hpc.runs import fingerprint

    config = load_config(config_file)
    return RunFolder.create(folder, config.model_dump(mode="json"), fingerprint(config))


def import_graph(folder: Path) -> str:
    """Knowledge graph to `kg.h5`; returns one line on what it holds."""
    from kgqa_hpc.kg.file import read_graph, write_graph
    from kgqa_hpc.kg.load import load_graph

    run, config = _open(folder)
    if run.kg.exists():
        graph = read_graph(run.kg)
    else:
        graph = load_graph(config.graph)
        write_graph(run.kg, graph, {})
    return f"{run.kg}: {graph.num_nodes:,} nodes of {len(graph.node_types)} types, {graph.num_edges:,} edges"


def sample(folder: Path, *, threads: int | None = None) -> str:
    """Reduce, count all shapes, draw the anchors into `anchors.h5`; returns what was found."""
    from kgqa_hpc.store.anchors import AnchorsFile

    run, config = _open(folder)
    if run.anchors.exists():
        with AnchorsFile(run.anchors) as anchors:
            return f"{run.anchors}: {len(anchors):,} anchors"
    if not run.kg.exists():
        raise InputError(f"{run.kg} is missing", f"first: kgqa import {folder}")
    return _sample(run, config, threads)


def _announce(plan: Plan) -> None:
    """Say what is going to happen if it takes longer than it takes to read that."""
    from kgqa_hpc.progress import SHORT

    if plan.core_seconds > SHORT:
        print(plan.text, file=sys.stderr, flush=True)


def _sample(run: RunFolder, config: RunConfig, threads: int | None) -> str:
    from kgqa_hpc.anchors.graphlet import graphlet_anchors
    from kgqa_hpc.graphlets.sample import sample_graphlets
    from kgqa_hpc.graphlets.statistics import statistics_csv
    from kgqa_hpc.kg.file import read_graph
    from kgqa_hpc.store.anchors import write_anchors
    from kgqa_hpc.store.atomic import make_folder, write_file

    reduction = _reduce(read_graph(run.kg), config.graph)
    graph, settings = reduction.graph, config.anchors
    with _progress() as progress:
        drawn = sample_graphlets(
            *graph.csr(),
            per_shape=settings.per_shape,
            seed=config.seed,
            shapes=settings.shapes,
            method=settings.method,
            backend=settings.backend,
            max_per_node=settings.max_per_node,
            node_type=graph.node_type if settings.spread == "types" else None,
            threads=threads,
            progress=progress,
            announce=_announce,
        )
    if not len(drawn.shape):
        raise EmptyGraphError(
            "the reduced graph holds no graphlet of any wanted shape", "widen the degree limits"
        )
    make_folder(run.stats)
    write_file(run.stats / "graphlets.csv", statistics_csv(drawn).encode())
    if find_spec("matplotlib"):  # the extra `report`; the figures of the CSV file are the same
        from kgqa_hpc.graphlets.figure import shapes_png

        write_file(run.stats / "graphlets.png", shapes_png(drawn))
    header = {"seed": config.seed, "reduction": reduction.counts(), "totals": _keys_as_text(drawn.totals)}
    anchors = (anchor.to_dict() for anchor in graphlet_anchors(graph, drawn, config.seed))
    total = write_anchors(run.anchors, anchors, header)
    return f"{reduction}\n{drawn.plan.text}\n{run.anchors}: {total:,} anchors"


def merge(folder: Path, *, partial: bool = False, published: bool = False) -> tuple[dict[str, Any], str]:
    """Assemble `dataset/`; returns the accounting as a document and as text."""
    from kgqa_hpc.dataset import accounting
    from kgqa_hpc.dataset.merge import merge as merge_results

    run, _ = _open(folder)
    with _progress() as progress:
        counts = merge_results(run, partial=partial, published=published, progress=progress)
    return counts.to_dict(), f"{accounting.render(counts)}\n{run.dataset}"


def report(folder: Path) -> str:
    """Write `report/index.html`; returns its path."""
    from kgqa_hpc.report.page import write_report

    run, _ = _open(folder)
    return str(write_report(run))


def all_stages(config_file: Path, folder: Path, *, threads: int | None = None) -> str:
    """Everything on this machine, resumable; returns where everything lies."""
    from kgqa_hpc.work.run import run_command

    run = init(config_file, folder)
    _say("import", import_graph(folder))
    _say("sample", sample(folder, threads=threads))
    run_command(folder)
    _say("merge", merge(folder)[1])
    page = report(folder)
    return f"dataset  {run.dataset}\nreport   {page}\none item kgqa explain {folder} ITEM"


def count(
    *,
    nodes: str,
    edges: str,
    min_degree: int,
    max_degree: int,
    unknown_nodes: str,
    backend: Literal["native", "graph-tool"],
    threads: int | None,
) -> dict[str, Any]:
    """Exact counts of a reduced graph in two CSV files: {"nodes", "edges", "counts": {"1": …, "29": …}}."""
    from kgqa_hpc.graphlets.census import count_graphlets
    from kgqa_hpc.kg.load import load_graph

    settings = _graph_config(nodes, edges, min_degree, max_degree, unknown_nodes)
    graph = _reduce(load_graph(settings), settings).graph
    indptr, indices = graph.csr()
    with _progress() as progress:
        counts = count_graphlets(indptr, indices, backend=backend, threads=threads, progress=progress)
    return {"nodes": graph.num_nodes, "edges": len(indices) // 2, "counts": _keys_as_text(counts)}


def count_table(document: dict[str, Any]) -> str:
    """The same for a person: one line per shape."""
    from kgqa_hpc.graphlets.shapes import SHAPES

    lines = [f"{document['nodes']:,} nodes, {document['edges']:,} edges"]
    for key, total in document["counts"].items():
        shape = SHAPES[int(key)]
        lines.append(f"{key:>3}  {shape.name:<34} {total:>26,}")
    return "\n".join(lines)


def _graph_config(nodes: str, edges: str, low: int, high: int, unknown: str) -> GraphConfig:
    from kgqa_hpc.config import parse_config

    graph = {
        "source": "csv",
        "nodes": nodes,
        "edges": edges,
        "min_degree": low,
        "max_degree": high,
        "unknown_nodes": unknown,
    }
    return parse_config({"graph": graph, "engine": {"kind": "scripted"}}, "kgqa count").graph


def _reduce(graph: KnowledgeGraph, config: GraphConfig) -> Reduction:
    from kgqa_hpc.kg.reduce import Wanted, reduce_to

    return reduce_to(graph, Wanted.of(config))


def _open(folder: Path) -> tuple[RunFolder, RunConfig]:
    from kgqa_hpc.runs import open_run

    return open_run(folder)


def _keys_as_text(totals: dict[int, int]) -> dict[str, int]:
    return {str(shape): int(total) for shape, total in sorted(totals.items())}


def _say(stage: str, text: str) -> None:
    for line in text.splitlines():
        print(f"{stage:<7} {line}", file=sys.stderr, flush=True)


@contextmanager
def _progress() -> Iterator[Any]:
    """A callable(done, total, label): a bar on a terminal, one line per finished label in a log."""
    from kgqa_hpc.progress import stage_progress

    with stage_progress() as progress:
        yield progress
