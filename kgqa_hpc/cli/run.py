"""The verbs that take a run from its configuration to its dataset, in that order, and to a larger one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from kgqa_hpc.cli.app import AsJson, Config, Run, Threads, TrustConfig, app, print_result, say, seconds


@app.command()
def init(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A configuration, FILE or FOLDER.")],
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="The run folder.")] = None,
    example: Annotated[
        str | None, typer.Option(help="Write this starting configuration to FILE: csv, graphml, slurm …")
    ] = None,
    plugin: Annotated[
        str | None, typer.Option(help="Write NAME.py with a step of your own, its test and a configuration.")
    ] = None,
    accept_changed_code: Annotated[
        bool, typer.Option("--accept-changed-code", help="Go on with entries whose code was changed.")
    ] = False,
) -> None:
    """Check a configuration completely and create the run folder; or write an example of one."""
    from kgqa_hpc.errors import InputError

    if example is not None:
        from kgqa_hpc.config.files import write_example

        write_example(example, config)
        print(config)
        return
    if plugin is not None:
        from kgqa_hpc.config.files import write_plugin

        say("\n".join(map(str, write_plugin(plugin, config))))
        return
    if run is None:
        raise InputError("which folder? kgqa init CONFIG RUN", "or kgqa init --example NAME FILE")
    from kgqa_hpc.run import Run as AnyRun

    AnyRun.from_config(config, run).create(accept_code=accept_changed_code)
    say(run)


@app.command(name="import")
def import_(run: Run) -> None:
    """Read the knowledge graph into RUN/kg.h5."""
    from kgqa_hpc import stages

    say(stages.import_graph(run))


@app.command()
def sample(run: Run, threads: Threads = None) -> None:
    """Reduce the graph, count all 29 shapes and draw the anchors."""
    from kgqa_hpc import stages

    say(stages.sample(run, threads=threads))


@app.command(name="run")
def run_(
    run: Run,
    worker: Annotated[
        str | None, typer.Option(help="Name of this worker in logs; default: from the launcher.")
    ] = None,
    trust_config: TrustConfig = False,
) -> None:
    """Generate and judge all shards. Alone, several at once, under mpiexec or srun, or in a job array."""
    from kgqa_hpc.target import run_towards

    run_towards(run, worker, trust=trust_config)


@app.command()
def submit(
    run: Run,
    workers: Annotated[int, typer.Option(min=1, help="Jobs that generate and judge, side by side.")] = 1,
    time: Annotated[str, typer.Option(help="Limit of each job: 2-00:00:00, 4h, 90m.")] = "2-00:00:00",
    gpus: Annotated[int, typer.Option(min=0, help="GPUs of each worker.")] = 1,
    cpus: Annotated[int, typer.Option(min=1, help="Cores of each worker.")] = 4,
    memory: Annotated[str, typer.Option(help="Memory of each worker.")] = "32G",
    graph_cpus: Annotated[int, typer.Option(min=1, help="Cores of the job that samples the graph.")] = 16,
    graph_memory: Annotated[str, typer.Option(help="Memory of the job that samples the graph.")] = "32G",
    partition: Annotated[str | None, typer.Option(help="Slurm partition of the workers.")] = None,
    account: Annotated[str | None, typer.Option(help="Slurm account.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, an #SBATCH line of the workers as it is.")
    ] = None,
    cluster: Annotated[
        Literal["slurm", "local"], typer.Option(help="local: processes on this machine.")
    ] = "slurm",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the scripts, submit nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Submit what the run still needs to Slurm, chained by dependencies."""
    from kgqa_hpc.cluster import submit as room
    from kgqa_hpc.cluster.jobs import Resources
    from kgqa_hpc.errors import InputError
    from kgqa_hpc.stages import STAGES

    pairs = [pair.partition("=") for pair in option or []]
    if bad := [name for name, equals, _ in pairs if not (name and equals)]:
        raise InputError(f"--option {bad[0]!r} is not NAME=VALUE")
    resources = Resources(
        workers=workers,
        time=seconds("--time", time),
        gpus=gpus,
        cpus=cpus,
        memory=memory,
        graph_cpus=graph_cpus,
        graph_memory=graph_memory,
        partition=partition,
        account=account,
        options={name: value for name, _, value in pairs},
    )
    jobs = room.submit(run, resources, STAGES, cluster=cluster, dry_run=dry_run)
    lines = (job["script"] if dry_run else f"{job['name']:<9} {job['job']}" for job in jobs)
    print_result(jobs, "\n".join(lines), as_json)


@app.command()
def requeue(
    run: Run,
    since: Annotated[
        str | None, typer.Option(metavar="MARK", help="What this command printed before the work began.")
    ] = None,
    exit_code: Annotated[int, typer.Option(help="What `kgqa run`, or its launcher, ended with.")] = 0,
    restarts: Annotated[int, typer.Option(min=0, help="How often the job was in the queue before.")] = 0,
) -> None:
    """For batch scripts: a mark of what is done; with --since, whether the job goes back into the queue."""
    from kgqa_hpc.cluster import requeue as room

    if since is None:
        say(room.progress_mark(run))
        return
    decision = room.decide(run, since, exit_code, restarts)
    say(decision.text, aside=decision.code == room.GIVE_UP)
    raise typer.Exit(decision.code)


@app.command()
def merge(
    run: Run,
    partial: Annotated[
        bool, typer.Option("--partial", help="Merge what is there, although work is left.")
    ] = False,
    format: Annotated[
        Literal["biographletqa"] | None,
        typer.Option("--format", help="Also write the published field names."),
    ] = None,
    shared: Annotated[
        bool, typer.Option("--shared", help="Share the work with all who run this command, on any node.")
    ] = False,
    dask: Annotated[
        str | None,
        typer.Option(help="Share the work with a Dask cluster: its scheduler's address, or slurm."),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key of dataset: first, as split.by=nodes."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Take dataset: from this configuration first.")] = None,
    as_json: AsJson = False,
) -> None:
    """Assemble RUN/dataset and check that every sampled item is accounted for."""
    from kgqa_hpc import stages
    from kgqa_hpc.cli.options import dataset_changes
    from kgqa_hpc.dataset import accounting
    from kgqa_hpc.errors import InputError
    from kgqa_hpc.run import Run as AnyRun

    counts: accounting.Accounting | None
    if shared and (dask or partial):
        raise InputError("--shared goes neither with --dask nor with --partial", "choose one of them")
    AnyRun(run).change_dataset(dataset_changes(changes or [], config))
    if shared:
        counts = stages.merge_shared(run, published=format is not None)
    else:
        counts = AnyRun(run).merge(partial=partial, published=format is not None, dask=dask)
    if counts is None:
        say(f"{run / 'dataset'} was written by another process of this merge", aside=True)
    else:
        print_result(counts.to_dict(), f"{accounting.render(counts)}\n{run / 'dataset'}", as_json)


@app.command()
def report(run: Run) -> None:
    """Write RUN/report/index.html, one self-contained page."""
    from kgqa_hpc import stages

    say(stages.report(run))


@app.command(name="all")
def all_(config: Config, run: Run, threads: Threads = None) -> None:
    """Everything on one machine, from the graph to the report; the same command resumes."""
    from kgqa_hpc.run import Run as AnyRun
    from kgqa_hpc.store.run_folder import RunFolder

    AnyRun.from_config(config, run).all(threads)
    folder = RunFolder(run)
    say(
        f"dataset  {folder.dataset}\nreport   {folder.report / 'index.html'}\none item kgqa explain {run} ITEM"
    )


@app.command()
def extend(
    run: Run,
    per_shape: Annotated[int | None, typer.Option(min=1, help="Graphlets of each shape, in all.")] = None,
    number: Annotated[int | None, typer.Option(min=1, help="Anchors of another kind, in all.")] = None,
    threads: Threads = None,
    trust_config: TrustConfig = False,
) -> None:
    """Draw a larger sample that contains the old one; answers are kept. Then run and merge."""
    from kgqa_hpc.errors import InputError
    from kgqa_hpc.runs.sampling import extend as draw_more

    if (per_shape is None) == (number is None):
        raise InputError("how many? --per-shape N for graphlets, --number N for other kinds")
    say(draw_more(run, per_shape or number or 0, threads, trust=trust_config))
    say(f"next: kgqa run {run}")
