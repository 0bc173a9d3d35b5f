"""The stages of a run in their order. Read this file first.

A stage is one entry of STAGES: its command, what it makes, and what it asks of a cluster. Each is a few
lines over the rooms that do the work, returns data, and keeps what it finds whole, so that every command
can be repeated.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kgqa_hpc.checks import notes, require_ready
from kgqa_hpc.config import GraphConfig, load_config
from kgqa_hpc.errors import InputError
from kgqa_hpc.plain_text import plain
from kgqa_hpc.runs import create_run, fingerprint, kept_prompts, larger, open_for_work, open_run
from kgqa_hpc.store.origin import anchors_origin, graph_origin, keeps_own
from kgqa_hpc.store.run_folder import RunFolder

if TYPE_CHECKING:
    from kgqa_hpc.dataset.accounting import Accounting
    from kgqa_hpc.dataset.workers import Spools
    from kgqa_hpc.kg.graph import KnowledgeGraph
    from kgqa_hpc.kg.reduce import Reduction


class Stage(NamedTuple):
    """One stage: the name of its command, the path in the run folder that it makes, its work, and whether that
    takes the workers' GPUs. `kgqa all` and `kgqa submit` go by these.
    """

    name: str
    makes: str
    work: Callable[[Path, int | None], object]
    gpus: bool = False


@dataclass(frozen=True)
class Imported:
    """A knowledge graph in kg.h5; `path` is None for a run that reads no graph."""

    path: Path | None
    nodes: int = 0
    node_types: int = 0
    edges: int = 0

    def __str__(self) -> str:
        if self.path is None:
            return "this run reads no graph"
        return f"{self.path}: {self.nodes:,} nodes of {self.node_types} types, {self.edges:,} edges"


@dataclass(frozen=True)
class Sampled:
    """The anchors of a run; `notes` say how they were drawn."""

    path: Path
    anchors: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([*self.notes, f"{self.path}: {self.anchors:,} anchors"])


def init(config_file: Path, folder: Path) -> RunFolder:
    """Check all that can be checked without work, then create the folder; a known one is only compared.

    Raises ConfigError, PromptError, or FingerprintMismatch when the folder belongs to another configuration.
    """
    config = load_config(config_file)
    require_ready(config, str(config_file))
    run = create_run(folder, config)
    for note in notes(config):
        print(f"note: {note}", file=sys.stderr)
    return run


def import_graph(folder: Path, threads: int | None = None) -> Imported:
    """Knowledge graph to `kg.h5`."""
    from kgqa_hpc.kg.file import read_graph, write_graph
    from kgqa_hpc.kg.load import load_graph

    run, config = open_for_work(folder)
    if config.graph is None:
        return Imported(None)
    origin = graph_origin(run.manifest().sections)
    if keeps_own(run.quarantine, run.kg, "knowledge-graph", origin):
        graph = read_graph(run.kg)
    else:
        graph = load_graph(config.graph)
        write_graph(run.kg, graph, {}, origin)
    return Imported(run.kg, graph.num_nodes, len(graph.node_types), graph.num_edges)


def sample(folder: Path, threads: int | None = None) -> Sampled:
    """Reduce the graph where there is one, and draw the anchors into `anchors.h5`."""
    from kgqa_hpc.store.anchors import AnchorsFile

    run, config = open_for_work(folder)
    sections = run.manifest().sections
    if keeps_own(run.quarantine, run.anchors, "anchors", anchors_origin(sections)):
        with AnchorsFile(run.anchors) as anchors:
            return Sampled(run.anchors, len(anchors))
    graph = graph_origin(sections)
    if config.graph is not None and not keeps_own(run.quarantine, run.kg, "knowledge-graph", graph):
        raise InputError(f"{run.kg} is missing", f"first: kgqa import {folder}")
    return _sample(run, config, threads)


def _sample(run: RunFolder, config: Any, threads: int | None) -> Sampled:
    from kgqa_hpc.store.anchors import write_anchors
    from kgqa_hpc.store.atomic import make_folder, write_file

    drawn, header, notes = _draw(run, config, threads)
    make_folder(run.stats)
    for name, content in drawn.files.items():
        write_file(run.stats / name, content)
    header |= anchors_origin(run.manifest().sections)
    total = write_anchors(run.anchors, (anchor.to_dict() for anchor in drawn.anchors), header)
    return Sampled(run.anchors, total, notes)


def _draw(run: RunFolder, config: Any, threads: int | None) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """What the kind drew, the facts for the header of anchors.h5, and the notes for a person."""
    from kgqa_hpc.anchors.anchor import Source, Tools
    from kgqa_hpc.kg.file import read_graph
    from kgqa_hpc.steps.chain import kind_of
    from kgqa_hpc.steps.variants import with_variants

    source, notes = Source(), list[str]()
    if config.graph is not None:
        reduction = _reduce(read_graph(run.kg), config.graph)
        source, notes = Source(reduction.graph, reduction.counts()), [str(reduction)]
    with _progress() as progress:
        drawn = kind_of(config).draw(source, config.anchors, config.seed, Tools(threads, progress, _announce))
    if (varied := config.variant_steps()) is not None:
        drawn = replace(drawn, anchors=with_variants(drawn.anchors, list(varied[1])))
    header = {"seed": config.seed, "kind": config.anchors.kind, "totals": dict(drawn.totals)}
    if source.reduction is not None:
        header["reduction"] = source.reduction
    return drawn, header, (*notes, *drawn.notes)


def extend(folder: Path, size: int, threads: int | None = None) -> Sampled:
    """A larger sample that contains the one there is; every answer is kept, new anchors get new shards.

    Repeating it after a kill goes on. Raises InputError when the larger sample does not begin with the old one
    (balanced samples), or is not larger.
    """
    from kgqa_hpc.store.anchors import AnchorsFile, write_anchors
    from kgqa_hpc.store.sealed import read_header

    run, config = open_for_work(folder)
    grown = larger(config, size)
    sections = fingerprint(grown, kept_prompts(run))
    before = read_header(run.anchors, "anchors")
    if before.get("made_by") != anchors_origin(sections)["made_by"]:
        drawn, header, _ = _draw(run, grown, threads)
        with AnchorsFile(run.anchors) as anchors:
            rows = list(_beginning_with(anchors.rows(), (one.to_dict() for one in drawn.anchors), folder))
        rounds = [*before.get("grown", ()), [before["rows"], before["sha256"][:16]]]
        write_anchors(run.anchors, rows, {**header, **anchors_origin(sections), "grown": rounds})
    run.grow(grown.plain(), sections)
    return Sampled(run.anchors, read_header(run.anchors, "anchors")["rows"])


def _beginning_with(old: Iterator[Any], new: Iterator[Any], folder: Path) -> Iterator[Any]:
    """The new anchors, after every old one was seen to stand in its place."""
    for known in old:
        if next(new, None) != known:
            raise InputError(
                f"{folder}: a larger sample of this kind does not contain this one", "make a new run for it"
            )
        yield known
    yield from new


def run_workers(folder: Path, threads: int | None = None) -> None:
    """Send every item through its steps; see work/run.py."""
    from kgqa_hpc.work.run import run_command

    run_command(folder)


def merge(
    folder: Path,
    threads: int | None = None,
    *,
    partial: bool = False,
    published: bool = False,
    dask: str | None = None,
) -> Accounting:
    """Assemble `dataset/`; returns its accounting. `dask`: shards are read on that cluster."""
    from kgqa_hpc.dataset.merge import merge as merge_results

    run, _ = open_run(folder)
    with _progress() as progress, _spools(dask) as spools:
        return merge_results(run, partial=partial, published=published, progress=progress, spools=spools)


@contextmanager
def _spools(dask: str | None) -> Iterator[Spools | None]:
    if dask is None:
        yield None
        return
    from kgqa_hpc.dataset.dask_spools import dask_spools

    with dask_spools(dask) as spools:
        yield spools


def merge_shared(folder: Path, *, partial: bool = False, published: bool = False) -> Accounting | None:
    """This process's part of a merge that several do; its accounting where it was this one that wrote."""
    from kgqa_hpc.dataset.shared_merge import merge_shared as share

    run, _ = open_run(folder)
    with _progress() as progress:
        return share(run, partial=partial, published=published, progress=progress)


def report(folder: Path, threads: int | None = None) -> Path:
    """Write `report/index.html`; returns its path."""
    from kgqa_hpc.report.page import write_report

    run, _ = open_run(folder)
    return Path(write_report(run))


STAGES = (
    Stage("import", "kg.h5", import_graph),
    Stage("sample", "anchors.h5", sample),
    Stage("run", "results", run_workers, gpus=True),
    Stage("merge", "dataset", merge),
    Stage("report", "report", report),
)


def standing(folder: Path) -> dict[str, Any]:
    """The status of a run (status/snapshot.py) with its jobs in Slurm's queue, and its "stages",
    [{"name", "done"}] in their order. Raises InputError when there is no run.
    """
    from kgqa_hpc.cluster.slurm import queue_state
    from kgqa_hpc.status.snapshot import survey

    status = survey(folder, queue_state(RunFolder.open(folder).logs))
    made = [(folder / stage.makes).exists() for stage in STAGES]
    workers = next(place for place, stage in enumerate(STAGES) if stage.gpus)
    # A run without a graph imports nothing, so a later stage's work shows that of the earlier ones. What the workers
    # make grows until they are done.
    made[:workers] = [any(made[place:workers]) for place in range(workers)]
    made[workers] = status["complete"]
    return {
        **status,
        "stages": [{"name": s.name, "done": done} for s, done in zip(STAGES, made, strict=True)],
    }


def all_stages(config_file: Path, folder: Path, *, threads: int | None = None) -> RunFolder:
    """Everything on this machine, resumable; what each stage found goes to stderr."""
    run = init(config_file, folder)
    for stage in STAGES:
        found = stage.work(folder, threads)
        for line in str("" if found is None else found).splitlines():
            print(plain(f"{stage.name:<7} {line}"), file=sys.stderr, flush=True)
    return run


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
    from kgqa_hpc.graphlets.count import count_graphlets
    from kgqa_hpc.kg.load import load_graph

    settings = _graph_config(nodes, edges, min_degree, max_degree, unknown_nodes)
    graph = _reduce(load_graph(settings), settings).graph
    indptr, indices = graph.csr()
    with _progress() as progress:
        counts = count_graphlets(indptr, indices, backend=backend, threads=threads, progress=progress)
    by_shape = {str(shape): int(total) for shape, total in sorted(counts.items())}
    return {"nodes": graph.num_nodes, "edges": len(indices) // 2, "counts": by_shape}


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
    config = parse_config({"graph": graph, "engine": {"kind": "scripted"}}, "kgqa count").graph
    assert config is not None
    return config


def _reduce(graph: KnowledgeGraph, config: GraphConfig) -> Reduction:
    from kgqa_hpc.kg.reduce import Wanted, reduce_to

    return reduce_to(graph, Wanted.of(config))


def _announce(text: str, seconds: float) -> None:
    """Say what is going to happen if it takes longer than it takes to read that."""
    from kgqa_hpc.progress import SHORT

    if seconds > SHORT:
        print(text, file=sys.stderr, flush=True)


@contextmanager
def _progress() -> Iterator[Any]:
    """A callable(done, total, label): a bar on a terminal, one line per finished label in a log."""
    from kgqa_hpc.progress import stage_progress

    with stage_progress() as progress:
        yield progress
