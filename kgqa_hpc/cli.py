"""The `kgqa` command. Each verb is a few lines: parse, call the room that does it, print.

Results go to stdout, progress and messages to stderr. Exit codes: 0 done, 1 failed, 2 bad input, 75 stopped
early (run the same command again). Rooms are imported inside their verb, so that `kgqa --help` is quick.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kgqa_hpc import __version__
from kgqa_hpc.errors import KgqaError

app = typer.Typer(
    name="kgqa",
    help="From a knowledge graph to a judged, traceable question-answer dataset.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")]
Config = Annotated[Path, typer.Argument(metavar="CONFIG", help="A configuration, see configs/.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="Default: the cores this process may use.")
]


def main() -> None:
    """Entry point: turns the project's errors into one clear line and the right exit code."""
    try:
        app()
    except KgqaError as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)
    except BrokenPipeError:  # `kgqa … | head`: not a failure of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))


def _seconds(option: str, text: str) -> float:
    from kgqa_hpc.config import parse_duration
    from kgqa_hpc.errors import InputError

    try:
        return float(str(parse_duration(text)))
    except ValueError as problem:
        raise InputError(f"{option} {text!r} {problem}") from None


def _version(wanted: bool) -> None:
    if wanted:
        print(f"kgqa {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def init(config: Config, run: Run) -> None:
    """Check a configuration completely and create the run folder."""
    from kgqa_hpc import stages

    stages.init(config, run)
    print(run)


@app.command(name="import")
def import_(run: Run) -> None:
    """Read the knowledge graph into RUN/kg.h5."""
    from kgqa_hpc import stages

    print(stages.import_graph(run))


@app.command()
def sample(run: Run, threads: Threads = None) -> None:
    """Reduce the graph, count all 29 shapes and draw the anchors."""
    from kgqa_hpc import stages

    print(stages.sample(run, threads=threads))


@app.command(name="run")
def run_(
    run: Run,
    worker: Annotated[
        str | None, typer.Option(help="Name of this worker in logs; default: from the launcher.")
    ] = None,
) -> None:
    """Generate and judge all shards. Alone, several at once, under mpiexec or srun, or in a job array."""
    from kgqa_hpc.runtime.run import run_command

    run_command(run, worker=worker)


@app.command()
def submit(
    run: Run,
    workers: Annotated[int, typer.Option(min=1, help="Jobs that generate and judge, side by side.")] = 1,
    time: Annotated[str, typer.Option(help="Limit of each job: 2-00:00:00, 4h, 90m.")] = "2-00:00:00",
    gpus: Annotated[int, typer.Option(min=0, help="GPUs of each worker.")] = 1,
    cpus: Annotated[int, typer.Option(min=1, help="Cores of each worker.")] = 4,
    memory: Annotated[str, typer.Option(help="Memory of each worker.")] = "32G",
    partition: Annotated[str | None, typer.Option(help="Slurm partition.")] = None,
    account: Annotated[str | None, typer.Option(help="Slurm account.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, an #SBATCH line as it is.")] = None,
    cluster: Annotated[
        Literal["slurm", "local"], typer.Option(help="local: processes on this machine.")
    ] = "slurm",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the scripts, submit nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Submit what the run still needs to Slurm, chained by dependencies."""
    from kgqa_hpc.errors import InputError
    from kgqa_hpc.runtime import submit as room

    pairs = [pair.partition("=") for pair in option or []]
    if bad := [name for name, equals, _ in pairs if not (name and equals)]:
        raise InputError(f"--option {bad[0]!r} is not NAME=VALUE")
    resources = room.Resources(
        workers=workers,
        time=_seconds("--time", time),
        gpus=gpus,
        cpus=cpus,
        memory=memory,
        partition=partition,
        account=account,
        options={name: value for name, _, value in pairs},
    )
    jobs = room.submit(run, resources, cluster=cluster, dry_run=dry_run)
    if as_json:
        _print_json(jobs)
    elif dry_run:
        print("\n".join(job["script"] for job in jobs))
    else:
        print("\n".join(f"{job['name']:<9} {job['job']}" for job in jobs))


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
    as_json: AsJson = False,
) -> None:
    """Assemble RUN/dataset and check that every sampled item is accounted for."""
    from kgqa_hpc import stages

    document, text = stages.merge(run, partial=partial, published=format is not None)
    if as_json:
        _print_json(document)
    else:
        print(text)


@app.command()
def report(run: Run) -> None:
    """Write RUN/report/index.html, one self-contained page."""
    from kgqa_hpc import stages

    print(stages.report(run))


@app.command(name="all")
def all_(config: Config, run: Run, threads: Threads = None) -> None:
    """Everything on one machine, from the graph to the report; the same command resumes."""
    from kgqa_hpc import stages

    print(stages.all_stages(config, run, threads=threads))


@app.command()
def status(
    run: Run,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until the run is complete.")] = False,
    as_json: AsJson = False,
) -> None:
    """What is done, what is left, how fast it goes and who is stalled."""
    from kgqa_hpc.runtime import status as room

    if watch:
        room.watch(run)
    elif as_json:
        _print_json(room.status(run))
    else:
        print(room.render(room.status(run)))


@app.command()
def plan(
    run: Run,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs that work side by side.")] = 1,
    time: Annotated[
        str | None, typer.Option(help="Limit of a job; default: runtime.time_limit or 2 days.")
    ] = None,
    pilot: Annotated[
        Path | None, typer.Option(help="A small run on the same engine to measure from.")
    ] = None,
    pilot_gpus: Annotated[int, typer.Option(min=1, help="GPUs the pilot ran on.")] = 1,
    tokens_per_second: Annotated[float | None, typer.Option(min=0.01, help="What one GPU generates.")] = None,
    as_json: AsJson = False,
) -> None:
    """GPU-hours, wall time, jobs and disk before anything is spent, with the assumptions."""
    from kgqa_hpc.runtime import plan as room

    document = room.plan(
        run,
        gpus=gpus,
        limit=None if time is None else _seconds("--time", time),
        pilot=pilot,
        pilot_gpus=pilot_gpus,
        tokens_per_s=tokens_per_second,
    )
    if as_json:
        _print_json(document)
    else:
        print(room.render(document))


@app.command()
def explain(
    run: Run,
    item: Annotated[str, typer.Argument(metavar="ITEM", help="The id of a record or anchor.")],
    as_json: AsJson = False,
) -> None:
    """One item's whole story: anchor, prompts, raw outputs, verdicts, versions."""
    from kgqa_hpc.dataset import explain as room

    story = room.explain(run, item)
    if as_json:
        _print_json(story)
    else:
        print(room.render(story))


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """What works on this machine, and the line that mends what does not."""
    from kgqa_hpc import doctor as room

    checks = room.diagnose()
    if as_json:
        _print_json([room.to_dict(check) for check in checks])
    else:
        print(room.render(checks))
    raise typer.Exit(room.exit_code(checks))


@app.command()
def count(
    nodes: Annotated[str, typer.Option(help="CSV with id,name,type (.gz allowed).")],
    edges: Annotated[str, typer.Option(help="CSV with source_id,target_id,type (.gz allowed).")],
    min_degree: Annotated[int, typer.Option(min=0)] = 3,
    max_degree: Annotated[int, typer.Option(min=1)] = 100,
    backend: Annotated[Literal["native", "graph-tool"], typer.Option(help="Who counts.")] = "native",
    unknown_nodes: Annotated[
        Literal["error", "drop"], typer.Option(help="Edges that name a node nobody declared.")
    ] = "error",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Exact counts of the 29 graphlet shapes of a reduced graph, without a run."""
    from kgqa_hpc import stages

    document = stages.count(
        nodes=nodes,
        edges=edges,
        min_degree=min_degree,
        max_degree=max_degree,
        unknown_nodes=unknown_nodes,
        backend=backend,
        threads=threads,
    )
    if as_json:
        _print_json(document)
    else:
        print(stages.count_table(document))
