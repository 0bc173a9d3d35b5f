"""Commands that make a run: the main way in order, from configuration to dataset and report; and growth.

Growth: a larger sample, a further judge, prompts from other programs.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from kgqa_hpc.cli.app import AsJson, Config, Run, Threads, TrustConfig, app, print_result, say, seconds
from kgqa_hpc.errors import InputError
from kgqa_hpc.text.plain_text import shell_word


@app.command()
def init(
    config: Annotated[
        Path,
        Argument(
            metavar="CONFIG",
            help="Configuration to check; with --example or --plugin, the file or folder to write.",
        ),
    ],
    run: Annotated[Path | None, Argument(metavar="[RUN]", help="The run folder.")] = None,
    example: Annotated[str | None, Option(help="Write this example to FILE: csv, graphml, slurm …")] = None,
    plugin: Annotated[
        str | None, Option(help="Write NAME.py with a step, its test and a configuration.")
    ] = None,
    accept_changed_code: Annotated[
        bool, Option("--accept-changed-code", help="Accept changed code of the run's entries.")
    ] = False,
) -> None:
    """Check a configuration and create the run folder; or write an example."""
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
        str | None, Option(help="Name of this worker in logs; default: taken from the launcher.")
    ] = None,
    trust_config: TrustConfig = False,
) -> None:
    """Generate and judge all shards. Several processes may run at once."""
    from kgqa_hpc.target import run_towards

    run_towards(run, worker, trust=trust_config)


@app.command()
def submit(
    run: Run,
    workers: Annotated[int, Option(min=1, help="Parallel jobs that generate and judge.")] = 1,
    time: Annotated[str, Option(help="Time limit of each job.")] = "2-00:00:00",
    gpus: Annotated[int, Option(min=0, help="GPUs per worker.")] = 1,
    cpus: Annotated[int, Option(min=1, help="Cores per worker.")] = 4,
    memory: Annotated[str, Option(help="Memory per worker.")] = "32G",
    graph_cpus: Annotated[int, Option(min=1, help="Cores of the job that samples.")] = 16,
    graph_memory: Annotated[str, Option(help="Memory of the job that samples.")] = "32G",
    partition: Annotated[str | None, Option(help="Slurm partition of the workers.")] = None,
    account: Annotated[str | None, Option(help="Slurm account.")] = None,
    option: Annotated[
        list[str] | None, Option(help="Further #SBATCH option of the workers, NAME=VALUE.")
    ] = None,
    cluster: Annotated[
        Literal["slurm", "local"], Option(help="Slurm jobs, or processes on this machine (local).")
    ] = "slurm",
    dry_run: Annotated[bool, Option("--dry-run", help="Print the scripts, submit nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Submit the remaining stages of a run to Slurm as chained jobs."""
    from kgqa_hpc.cluster import submit as room
    from kgqa_hpc.cluster.slurm import Resources
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
    lines = (job["script"] if dry_run else f"{job['name']:<14} {job['job']}" for job in jobs)
    print_result(jobs, "\n".join(lines), as_json)


@app.command()
def requeue(
    run: Run,
    since: Annotated[
        str | None, Option(metavar="MARK", help="Output of `kgqa requeue RUN` from before the work.")
    ] = None,
    exit_code: Annotated[int, Option(help="Exit code of `kgqa run` or of its launcher.")] = 0,
    restarts: Annotated[int, Option(min=0, help="Earlier restarts of the job.")] = 0,
) -> None:
    """For batch scripts: print a mark of the progress; with --since, decide whether to requeue."""
    from kgqa_hpc.cluster import submit as room
    from kgqa_hpc.status.snapshot import survey
    from kgqa_hpc.target import is_due

    status = survey(run)
    status["complete"] = status["complete"] and not is_due(run)
    if since is None:
        say(room.progress_mark(status))
        return
    code, why = room.decide(run, status, since, exit_code, restarts)
    say(why, aside=code == room.GIVE_UP)
    raise typer.Exit(code)


@app.command()
def broadcast(run: Run) -> None:
    """For batch scripts: print source, folder and name of each file that `stage_to` copies."""
    from kgqa_hpc.runs import open_run
    from kgqa_hpc.runs.checks import model_copies

    for row in model_copies(open_run(run)[1]):
        say("\t".join(row))


@app.command()
def merge(
    run: Run,
    partial: Annotated[
        bool, Option("--partial", help="Merge the finished items although work is left.")
    ] = False,
    format: Annotated[
        Literal["biographletqa"] | None, Option("--format", help="Also write the published field names.")
    ] = None,
    shared: Annotated[
        bool, Option("--shared", help="Share the work with all processes of this command, on any node.")
    ] = False,
    dask: Annotated[
        str | None, Option(help="Dask cluster to share the work with: its scheduler's address, or slurm.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Change a key of `dataset:` (split.by=nodes)."),
    ] = None,
    config: Annotated[Path | None, Option(help="Replace `dataset:` by that of this configuration.")] = None,
    as_recorded: Annotated[
        bool, Option("--as-recorded", help="Merge with the recorded settings although others were refused.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Assemble RUN/dataset."""
    from kgqa_hpc.run import Run as AnyRun

    if shared and (dask or partial):
        raise InputError("--shared goes neither with --dask nor with --partial", "choose one of them")
    counts = AnyRun(run).merge(
        partial=partial,
        published=format is not None,
        dask=dask,
        shared=shared,
        as_recorded=as_recorded,
        **_dataset_changes(changes or [], config),
    )
    if counts is None:
        say(f"{run / 'dataset'} was written by another process of this merge", aside=True)
    else:
        print_result(counts.to_dict(), f"{counts}\n{run / 'dataset'}", as_json)


def _dataset_changes(pairs: Sequence[str], config: Path | None) -> dict[str, Any]:
    """The changes that --set KEY=VALUE and --config FILE make, by `dataset.KEY`; a value is YAML.

    Raises InputError; ConfigError when the file is no configuration.
    """
    import yaml

    changes: dict[str, Any] = {}
    if config is not None:
        from kgqa_hpc.config import plain_config
        from kgqa_hpc.config.sections import DatasetConfig

        section = plain_config(config).get("dataset")
        if not isinstance(section, dict):
            raise InputError(
                f"{config}: has no section dataset:", "only that section can change in a merged run"
            )
        # A key that the file leaves out has its default again.
        changes = DatasetConfig().model_dump(mode="json")
        changes |= DatasetConfig.with_paths(section, config.resolve().parent)
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise InputError(f"--set {pair!r} is not KEY=VALUE", "as in --set split.by=nodes")
        try:
            changes[key.removeprefix("dataset.")] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise InputError(f"--set {pair!r}: the value is no YAML", "put it into quotes") from None
    return {f"dataset.{key}": value for key, value in changes.items()}


@app.command()
def report(
    run: Run,
    all_records: Annotated[bool, Option("--all-records", help="All records, not a sample of 3,000.")] = False,
) -> None:
    """Write RUN/report/index.html, one self-contained page."""
    from kgqa_hpc import stages

    say(stages.report(run, all_records=all_records))


@app.command(name="all")
def all_(config: Config, run: Run, threads: Threads = None) -> None:
    """Run all stages on this machine, from the graph to the report."""
    from kgqa_hpc.run import Run as AnyRun
    from kgqa_hpc.store.run_folder import RunFolder

    AnyRun.from_config(config, run).all(threads)
    folder = RunFolder(run)
    say(f"dataset  {folder.dataset}\nreport   {folder.report / 'index.html'}")
    say(f"one item kgqa explain {shell_word(run)} ITEM")


@app.command()
def extend(
    run: Run,
    per_shape: Annotated[int | None, Option(min=1, help="Graphlets of each shape in all.")] = None,
    number: Annotated[int | None, Option(min=1, help="Anchors in all, for other kinds.")] = None,
    threads: Threads = None,
    trust_config: TrustConfig = False,
) -> None:
    """Draw a larger sample that contains the old one; then run and merge."""
    from kgqa_hpc.runs import open_run
    from kgqa_hpc.runs.sampling import extend as draw_more

    anchors = open_run(run)[1].anchors
    by_shape = type(anchors).size == "per_shape"
    if (per_shape is not None, number is not None) != (by_shape, not by_shape):
        option = "--per-shape N" if by_shape else "--number N"
        raise InputError(f"how many? anchors of kind {anchors.kind} are counted by {option}")
    say(draw_more(run, per_shape or number or 0, threads, trust=trust_config))
    say(f"next: kgqa run {shell_word(run)}")


@app.command()
def judge(
    run: Run,
    prompt: Annotated[str, Option(help="Name of a judging prompt, or a file NAME.md.")],
    engine: Annotated[
        Path | None,
        Option(help="YAML file with the keys of `engine:`, or a configuration; default: the run's engine."),
    ] = None,
    name: Annotated[
        str | None, Option(help="Name of the judge and its pass; default: the prompt's name.")
    ] = None,
    trust_config: TrustConfig = False,
) -> None:
    """Add a judge to a run and ask it about every pair; then merge."""
    from kgqa_hpc.run import Run as AnyRun
    from kgqa_hpc.store.yaml_file import load_yaml

    opened = AnyRun(run)
    try:
        section = None if engine is None else load_yaml(engine)
    except FileNotFoundError:
        raise InputError(f"{engine}: no such file", "name a YAML file with an engine") from None
    if isinstance(section, dict):
        section = section.get("engine", section)
    opened.judge(prompt, engine=section, name=name, trust=trust_config)
    say(f"judged as {name or Path(prompt).stem}; next: kgqa merge {shell_word(run)}")


prompts_app = typer.Typer(help="Import prompts of other programs.", no_args_is_help=True)
app.add_typer(prompts_app, name="prompts")


@prompts_app.command(name="import")
def prompts_import(
    file: Annotated[
        Path, Argument(metavar="FILE", help="JSON object of prompt texts, or a single text (.txt).")
    ],
    step: Annotated[
        Literal["generate", "judge", "score"], Option(help="The step that the texts are for.")
    ] = "generate",
    to: Annotated[Path, Option(help="The folder of prompts to write.")] = Path("my_prompts"),
) -> None:
    """Convert a template file of the published pipeline into prompt files."""
    from kgqa_hpc.prompts.templates import import_templates

    for path in import_templates(file, to, step):
        print(path)
