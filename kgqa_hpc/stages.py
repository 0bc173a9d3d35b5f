"""The stages of a run in their order. Read this file first.

A stage is one entry of STAGES: its command, its output, and whether it needs GPUs. Each stage is a short function that
calls the packages that do the work, and returns data. It keeps finished output, so every command can be repeated.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kgqa_hpc.config import RunConfig
from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.errors import InputError
from kgqa_hpc.runs import added_judges, create_run, open_for_work, open_run
from kgqa_hpc.runs.checks import (
    accept_recorded,
    load_ready,
    notes,
    noting_refusal,
    require_no_refusal,
    require_packages,
    require_servers,
)
from kgqa_hpc.runs.sampling import Sampled, sample_into
from kgqa_hpc.runs.trust import require_agreed, require_same_code
from kgqa_hpc.store.fingerprint import anchors_origin, graph_origin, keeps_own
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.terminal import note, stage_progress
from kgqa_hpc.text.plain_text import shell_word


class Stage(NamedTuple):
    """A stage: name of its command, path of its output in the run folder, function, and whether it needs GPUs.

    `kgqa all` and `kgqa submit` read these fields.
    """

    name: str
    makes: str
    work: Callable[[Path, int | None], object]
    gpus: bool = False


def init(config_file: str | Path, folder: str | Path, *, accept_code: bool = False) -> RunFolder:
    """Check a configuration file and the files it names; then create the run folder, or compare it if it exists.

    Raises ConfigError, PromptError, or FingerprintMismatch if the folder belongs to another configuration.
    """
    with noting_refusal(Path(folder), str(config_file)):
        config = load_ready(Path(config_file), added_judges(Path(folder)))
        run = create(config, Path(folder), accept_code=accept_code)
    accept_recorded(run)
    return run


def create(config: RunConfig, folder: Path, *, accept_code: bool = False) -> RunFolder:
    """Create or compare the run folder of a checked configuration; print notes on missing optional packages."""
    run = create_run(folder, config, accept_code=accept_code)
    for line in notes(config):
        note(f"note: {line}")
    return run


def import_graph(folder: Path, threads: int | None = None) -> str:
    """Write the knowledge graph to `kg.h5`, and describe it; a finished kg.h5 of the same origin is kept."""
    from kgqa_hpc.kg.file import read_graph, write_graph
    from kgqa_hpc.kg.settings import contents, edited, graph_files, load_graph, record, recorded

    run, config = open_for_work(folder, import_again=True)
    if config.graph is None:
        return "this run reads no graph"
    sections = run.manifest().sections
    if keeps_own(run.quarantine, run.kg, "knowledge-graph", graph_origin(sections, recorded(run))):
        graph = read_graph(run.kg)
    else:
        files = graph_files(config.graph)
        digests = contents(files)
        graph = load_graph(config.graph)
        for path in edited(files, digests):
            raise InputError(f"{path}: was changed while it was read", "import again")
        record(run, digests)
        write_graph(run.kg, graph, graph_origin(sections, digests))
    types = len(graph.node_types)
    return f"{run.kg}: {graph.num_nodes:,} nodes of {types} types, {graph.num_edges:,} edges"


def sample(folder: Path, threads: int | None = None) -> Sampled:
    """Reduce the graph, if the run has one, draw the anchors and write them to `anchors.h5`."""
    from kgqa_hpc.kg.settings import recorded
    from kgqa_hpc.store.shards import AnchorsFile
    from kgqa_hpc.target import finish_growth

    finish_growth(folder)
    run, config = open_for_work(folder)
    sections = run.manifest().sections
    if keeps_own(run.quarantine, run.anchors, "anchors", anchors_origin(sections)):
        with AnchorsFile(run.anchors) as anchors:
            return Sampled(run.anchors, len(anchors))
    graph = graph_origin(sections, recorded(run))
    if config.graph is not None and not keeps_own(run.quarantine, run.kg, "knowledge-graph", graph):
        raise InputError(f"{run.kg} is missing", f"first: kgqa import {shell_word(folder)}")
    return sample_into(run, config, threads)


def run_workers(folder: Path, threads: int | None = None) -> None:
    """Process every item, and grow the sample until the target is reached, if any; see kgqa_hpc/work, target.py."""
    from kgqa_hpc.target import run_towards

    run_towards(folder)


def merge(
    folder: Path,
    threads: int | None = None,
    *,
    partial: bool = False,
    published: bool = False,
    dask: str | None = None,
    shared: bool = False,
) -> Accounting | None:
    """Assemble `dataset/` and return its accounting. `dask`: scheduler address of a cluster to use, or "slurm".

    With `shared`, several processes take part; None except in the process that wrote the dataset. Raises InputError if
    the run refused the last configuration given for it (runs/checks.py).
    """
    from kgqa_hpc.dataset import merge as room
    from kgqa_hpc.dataset.staging import stage_by_dask
    from kgqa_hpc.target import is_due

    run, config = open_run(folder)
    require_no_refusal(run)
    require_same_code(run, config)
    if is_due(folder):
        note(f"note: the target is not decided yet: kgqa run {shell_word(folder)} goes on with it")
    staging = nullcontext(None) if dask is None else stage_by_dask(dask)
    with stage_progress() as progress, staging as stage:
        if shared:
            return room.merge_shared(run, published=published, progress=progress)
        return room.merge(run, partial=partial, published=published, progress=progress, stage=stage)


def report(folder: Path, threads: int | None = None, *, all_records: bool = False) -> Path:
    """Write `report/index.html` of a run or a combined dataset, with sampled or all records; returns its path."""
    from kgqa_hpc.dataset.files import CombinedFolder, open_folder
    from kgqa_hpc.report.page import write_report

    run = open_folder(folder)
    source = run if isinstance(run, CombinedFolder) else open_run(folder)[0]
    return Path(write_report(source, all_records=all_records))


STAGES = (
    Stage("import", "kg.h5", import_graph),
    Stage("sample", "anchors.h5", sample),
    Stage("run", "results", run_workers, gpus=True),
    Stage("merge", "dataset", merge),
    Stage("report", "report", report),
)


def standing(folder: Path) -> dict[str, Any]:
    """The status of a run (kgqa_hpc/status) with its jobs in Slurm's queue, its "stages",
    [{"name", "done"}] in their order, "merged" {"accepted"} after a merge, and "dataset_is_older" if work was done
    after it. Raises InputError when there is no run.
    """
    from kgqa_hpc.cluster.slurm import queue_state
    from kgqa_hpc.status.snapshot import accepted_at_merge, dataset_is_older, survey
    from kgqa_hpc.target import is_due

    run = RunFolder.open(folder)
    status = survey(folder, queue_state(run.logs))
    status["complete"] = status["complete"] and not is_due(folder)
    exists = [(folder / stage.makes).exists() for stage in STAGES]
    workers = next(position for position, stage in enumerate(STAGES) if stage.gpus)
    # A run without a graph has no output of `import`: a later output shows that the earlier stages are done.
    # The workers' output grows until they are done, so `complete` decides.
    exists[:workers] = [any(exists[position:workers]) for position in range(workers)]
    exists[workers] = status["complete"]
    if exists[workers + 1] and (accepted := accepted_at_merge(run)) is not None:
        status["merged"] = {"accepted": accepted}
    if dataset_is_older(run, status):
        exists[workers + 1 :] = [False] * len(exists[workers + 1 :])
        status["dataset_is_older"] = True
    names = [stage.name for stage in STAGES]
    return {**status, "stages": [{"name": n, "done": done} for n, done in zip(names, exists, strict=True)]}


def work_through(chosen: Sequence[Stage], folder: Path, threads: int | None = None) -> None:
    """Do the chosen stages in order and print the result of each on stderr, unless it is a path.

    Packages that the merge needs are required before the first stage; if items are left to process, the engines'
    servers are tested too.
    """
    if any(stage.makes == "dataset" for stage in chosen):
        require_packages(open_run(folder)[1], "dataset")
    if any(stage.gpus for stage in chosen) and not standing(folder)["complete"]:
        run, config = open_run(folder)
        require_agreed(run, config.plain())
        require_servers(config.engines)
    for stage in chosen:
        result = stage.work(folder, threads)
        for line in str("" if result is None or isinstance(result, Path) else result).splitlines():
            note(f"{stage.name:<7} {line}")


def count(
    section: dict[str, Any], backend: Literal["native", "graph-tool"], threads: int | None
) -> dict[str, Any]:
    """Exact counts of the reduced graph that a `graph:` section names: {"nodes", "edges", "counts": {"1": …}}."""
    from kgqa_hpc.graphlets.count import count_graphlets
    from kgqa_hpc.kg.reduce import reduce_to
    from kgqa_hpc.kg.settings import graph_config, load_graph

    settings = graph_config(section)
    graph = reduce_to(load_graph(settings), settings).graph
    with stage_progress() as progress:
        counts = count_graphlets(graph, backend=backend, threads=threads, progress=progress)
    by_shape = {str(shape): int(total) for shape, total in sorted(counts.items())}
    return {"nodes": graph.num_nodes, "edges": len(graph.csr()[1]) // 2, "counts": by_shape}
