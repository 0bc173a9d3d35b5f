"""The stages of a run in their order. Read this file first.

A stage is one entry of STAGES: its command, what it makes, and what it asks of a cluster. Each is a few
lines over the rooms that do the work, returns data, and keeps what it finds whole, so that every command
can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kgqa_hpc.errors import InputError
from kgqa_hpc.runs import create_run, open_for_import, open_for_work, open_run, run_config
from kgqa_hpc.runs.checks import load_ready, notes, require_packages, require_servers
from kgqa_hpc.runs.entries import require_same_code
from kgqa_hpc.runs.sampling import Sampled, sample_into
from kgqa_hpc.runs.trust import require_agreed
from kgqa_hpc.store import canonical
from kgqa_hpc.store.fingerprint import anchors_origin, graph_origin, keeps_own
from kgqa_hpc.store.regular import read_if_there
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.terminal import note, stage_progress

if TYPE_CHECKING:
    from kgqa_hpc.config import RunConfig
    from kgqa_hpc.dataset.accounting import Accounting
    from kgqa_hpc.dataset.staging import Stage as Staging


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


def init(config_file: str | Path, folder: str | Path, *, accept_code: bool = False) -> RunFolder:
    """Check a configuration file and what it names, then create the folder, or compare the one that is there.

    Raises ConfigError, PromptError, or FingerprintMismatch when the folder belongs to another configuration.
    """
    return create(load_ready(Path(config_file)), Path(folder), accept_code=accept_code)


def create(config: RunConfig, folder: Path, *, accept_code: bool = False) -> RunFolder:
    """The same for a checked configuration; says what works elsewhere or later only."""
    run = create_run(folder, config, accept_code=accept_code)
    for line in notes(config):
        note(f"note: {line}")
    return run


def import_graph(folder: Path, threads: int | None = None) -> Imported:
    """Knowledge graph to `kg.h5`."""
    from kgqa_hpc.kg.file import read_graph, write_graph
    from kgqa_hpc.kg.input_files import contents, graph_files, record, require_unchanged
    from kgqa_hpc.kg.load import load_graph

    run, config = open_for_import(folder)
    if config.graph is None:
        return Imported(None)
    origin = graph_origin(run.manifest().sections)
    if keeps_own(run.quarantine, run.kg, "knowledge-graph", origin):
        graph = read_graph(run.kg)
    else:
        files = graph_files(config.graph)
        digests = contents(files)
        graph = load_graph(config.graph)
        require_unchanged(digests, files)
        record(run, digests)
        write_graph(run.kg, graph, {}, origin)
    return Imported(run.kg, graph.num_nodes, len(graph.node_types), graph.num_edges)


def sample(folder: Path, threads: int | None = None) -> Sampled:
    """Reduce the graph where there is one, and draw the anchors into `anchors.h5`."""
    from kgqa_hpc.store.shards import AnchorsFile
    from kgqa_hpc.target import finish_growth

    finish_growth(folder)
    run, config = open_for_work(folder)
    sections = run.manifest().sections
    if keeps_own(run.quarantine, run.anchors, "anchors", anchors_origin(sections)):
        with AnchorsFile(run.anchors) as anchors:
            return Sampled(run.anchors, len(anchors))
    graph = graph_origin(sections)
    if config.graph is not None and not keeps_own(run.quarantine, run.kg, "knowledge-graph", graph):
        raise InputError(f"{run.kg} is missing", f"first: kgqa import {folder}")
    return sample_into(run, config, threads)


def run_workers(folder: Path, threads: int | None = None) -> None:
    """Send every item through its steps, until the target where there is one; see work/run.py, target.py."""
    from kgqa_hpc.target import run_towards

    run_towards(folder)


def merge(
    folder: Path,
    threads: int | None = None,
    *,
    partial: bool = False,
    published: bool = False,
    dask: str | None = None,
) -> Accounting:
    """Assemble `dataset/`; returns its accounting. `dask`: that cluster takes part."""
    from kgqa_hpc.dataset.merge import merge as merge_results

    run, config = open_run(folder)
    require_same_code(run, config)
    with stage_progress() as progress, _staging(dask) as stage:
        return merge_results(run, partial=partial, published=published, progress=progress, stage=stage)


@contextmanager
def _staging(dask: str | None) -> Iterator[Staging | None]:
    if dask is None:
        yield None
        return
    from kgqa_hpc.dataset.dask_map import stage_by_dask

    with stage_by_dask(dask) as stage:
        yield stage


def merge_shared(folder: Path, *, published: bool = False) -> Accounting | None:
    """This process's part of a merge that several do; its accounting where it was this one that wrote."""
    from kgqa_hpc.dataset.shared_merge import merge_shared as share

    run, config = open_run(folder)
    require_same_code(run, config)
    with stage_progress() as progress:
        return share(run, published=published, progress=progress)


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
    """The status of a run (status/snapshot.py) with its jobs in Slurm's queue, its "stages",
    [{"name", "done"}] in their order, "merged" {"accepted"} after a merge, and "dataset_is_older" where it
    is. Raises InputError when there is no run.
    """
    from kgqa_hpc.cluster.slurm import queue_state
    from kgqa_hpc.status.snapshot import survey

    status = survey(folder, queue_state(RunFolder.open(folder).logs))
    exists = [(folder / stage.makes).exists() for stage in STAGES]
    workers = next(position for position, stage in enumerate(STAGES) if stage.gpus)
    # A run without a graph imports nothing, so a later stage's work shows that of the earlier ones. What the workers
    # make grows until they are done.
    exists[:workers] = [any(exists[position:workers]) for position in range(workers)]
    exists[workers] = status["complete"]
    if exists[workers + 1] and (accepted := _accepted_at_merge(RunFolder.open(folder))) is not None:
        status["merged"] = {"accepted": accepted}
    if older := _dataset_is_older(RunFolder.open(folder), status):
        exists[workers + 1 :] = [False] * len(exists[workers + 1 :])
    return {
        **status,
        **({"dataset_is_older": True} if older else {}),
        "stages": [{"name": s.name, "done": done} for s, done in zip(STAGES, exists, strict=True)],
    }


def _accepted_at_merge(run: RunFolder) -> int | None:
    """Accepted records of the dataset, after merge's filters; None where accounting.json does not say it."""
    try:
        counts = canonical.loads(read_if_there(run.dataset / "accounting.json") or b"")
        return int(counts.get("records", counts)["accepted"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _dataset_is_older(run: RunFolder, status: dict[str, Any]) -> bool:
    """Whether items were drawn or ended, or a pass was asked, since the dataset was merged.

    A damaged accounting.json is not judged here: every verb that reads the dataset says so.
    """
    try:
        counts = canonical.loads(read_if_there(run.dataset / "accounting.json") or b"")
        sampled, ended = counts["sampled"], counts["sampled"] - counts["waiting"]
        asked = {row["step"] for row in counts["requests"]}
        passes = run.config()["passes"]
        labels = {pass_data["name"]: [_labels(step) for step in pass_data["steps"]] for pass_data in passes}
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    if (sampled, ended) != (status["items"]["total"], status["items"]["ended"]):
        return True
    return any(
        pass_status["requests"]
        and not any(names & asked for names in labels.get(pass_status["name"], [asked]))
        for pass_status in status["passes"]
    )


def _labels(step: dict[str, Any]) -> set[str]:
    """What a step of config.yaml may be called in the counts of requests."""
    return {step["as"]} if step.get("as") else {step[key] for key in ("use", "prompt") if step.get(key)}


def all_stages(config_file: str | Path, folder: str | Path, *, threads: int | None = None) -> RunFolder:
    """Everything on this machine, resumable."""
    run = init(config_file, folder)
    require_packages(run_config(run), "dataset")
    work_through(STAGES, Path(folder), threads)
    return run


def work_through(chosen: Sequence[Stage], folder: Path, threads: int | None = None) -> None:
    """Do stages in their order; the result of each goes to stderr. Where the workers have work left, their servers are
    asked before anything else.
    """
    if any(stage.gpus for stage in chosen) and not standing(folder)["complete"]:
        run, config = open_run(folder)
        require_agreed(run, config.plain())
        require_servers(config)
    for stage in chosen:
        result = stage.work(folder, threads)
        for line in str("" if result is None else result).splitlines():
            note(f"{stage.name:<7} {line}")


def count(
    section: dict[str, Any], backend: Literal["native", "graph-tool"], threads: int | None
) -> dict[str, Any]:
    """Exact counts of the reduced graph that a `graph:` section names: {"nodes", "edges", "counts": {"1": …}}."""
    from kgqa_hpc.config import parse_config
    from kgqa_hpc.graphlets.count import count_graphlets
    from kgqa_hpc.kg.load import load_graph
    from kgqa_hpc.kg.reduce import Wanted, reduce_to

    settings = parse_config({"graph": section, "engine": {"kind": "scripted"}}, "kgqa count").graph
    assert settings is not None
    graph = reduce_to(load_graph(settings), Wanted.of(settings)).graph
    indptr, indices = graph.csr()
    with stage_progress() as progress:
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
