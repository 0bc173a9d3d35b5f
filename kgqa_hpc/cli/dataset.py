"""Commands on a finished dataset: show, export, combine, publish, query."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from kgqa_hpc.cli.app import AsJson, Run, app, print_result
from kgqa_hpc.errors import InputError
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.terminal import note
from kgqa_hpc.text.plain_text import shell_word

Condition = Annotated[
    str | None, Option(metavar="SQL", help="Only records for which this SQL expression is true.")
]
Difficulty = Annotated[
    list[str] | None,
    Option(metavar="LEVEL", help="Only records of this difficulty (easy, medium, hard); repeatable."),
]
Score = Annotated[
    list[str] | None, Option(metavar="NAME=LEAST", help="Only records with at least this score; repeatable.")
]


@app.command()
def show(
    run: Run,
    accepted: Annotated[bool, Option("--accepted", help="Accepted pairs (the default).")] = False,
    rejected: Annotated[bool, Option("--rejected", help="Rejected pairs, with the reason.")] = False,
    lost: Annotated[bool, Option("--lost", help="Items without a judged pair, with the reason.")] = False,
    group: Annotated[str | None, Option(help="Only records of this group ('shape 11').")] = None,
    number: Annotated[int, Option("-n", "--number", min=1, help="Records to show.")] = 20,
    where: Condition = None,
    difficulty: Difficulty = None,
    score: Score = None,
    as_json: AsJson = False,
) -> None:
    """Show records of the dataset as readable text."""
    from kgqa_hpc.dataset import show as room
    from kgqa_hpc.dataset.files import condition_of

    if accepted + rejected + lost > 1:
        raise InputError("--accepted, --rejected and --lost: choose one")
    which: room.Which = "rejected" if rejected else "lost" if lost else "accepted"
    records = room.show(run, which, group, number, condition_of(difficulty or (), score or (), where))
    print_result(records, room.render(records) or room.why_none(run, which), as_json)


@app.command()
def export(
    run: Run,
    to: Annotated[str, Option(metavar="FORMAT", help="Export format; see docs/guide/dataset.md.")],
    out: Annotated[
        Path, Option(metavar="FOLDER", help="Folder to write; an earlier export there is replaced.")
    ],
    extra: Annotated[
        Literal["reasoning"] | None,
        Option("--with", help="Include the writer's reasoning before each answer."),
    ] = None,
    where: Condition = None,
    difficulty: Difficulty = None,
    score: Score = None,
    as_json: AsJson = False,
) -> None:
    """Write the accepted pairs in another format, one file per part of a split."""
    from kgqa_hpc.dataset.files import condition_of, open_folder
    from kgqa_hpc.dataset.publish import export as write

    chosen = condition_of(difficulty or (), score or (), where)
    written = write(open_folder(run), to, out, chosen, reasoning=extra is not None)
    files = [str(path) for path in written]
    print_result(files, "\n".join(files), as_json)


@app.command()
def combine(
    out: Annotated[Path, Argument(metavar="OUT", help="The folder of the combined dataset.")],
    runs: Annotated[list[Path], Argument(metavar="RUN...", help="Merged runs, two or more.")],
    mixed: Annotated[bool, Option("--mixed", help="Allow different prompts or models.")] = False,
    share: Annotated[
        list[float] | None, Option(metavar="SHARE", help="Share of the accepted records; once for each run.")
    ] = None,
    number: Annotated[
        int | None, Option(min=1, help="Accepted records in all; default: as many as possible.")
    ] = None,
    seed: Annotated[int, Option(help="Random seed.")] = 42,
    where: Condition = None,
    difficulty: Difficulty = None,
    score: Score = None,
    as_json: AsJson = False,
) -> None:
    """Join the datasets of several runs; duplicate ids are dropped."""
    from kgqa_hpc.dataset import combine as room
    from kgqa_hpc.dataset.files import condition_of

    if number is not None and not share:
        raise InputError("--number: in which shares?", "say --share once for each run")
    mixture = room.Mixture(share, number, seed) if share else None
    chosen = condition_of(difficulty or (), score or (), where)
    document = room.combine(
        out, [RunFolder.open(run) for run in runs], mixed=mixed, where=chosen, mixture=mixture
    )
    total = ", ".join(f"{document[name]:,} {name}" for name in room.COUNTS if document[name])
    print_result(document, f"{out}: {total}", as_json)


@app.command()
def publish(
    run: Run,
    folder: Annotated[
        Path, Argument(metavar="FOLDER", help="Folder to write; an earlier published folder is replaced.")
    ],
    to: Annotated[
        list[str] | None, Option(metavar="FORMAT", help="Also write this export format; repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a folder to upload, and list missing metadata."""
    from dataclasses import asdict

    from kgqa_hpc.dataset import publish as room
    from kgqa_hpc.dataset.files import open_folder
    from kgqa_hpc.status.snapshot import dataset_is_older, survey

    done = room.publish(open_folder(run), folder, to or [])
    if dataset_is_older(RunFolder.open(run), survey(run)):
        note(f"note: the dataset is older than the run: kgqa merge {shell_word(run)}")
    print_result(asdict(done), done, as_json)


@app.command()
def sql(
    run: Run,
    query: Annotated[str, Argument(metavar="QUERY", help="One SELECT statement (DuckDB).")],
    as_json: AsJson = False,
) -> None:
    """Query the dataset in SQL: read-only views accepted, rejected, lost and nodes."""
    import pandas

    from kgqa_hpc.database import query as ask
    from kgqa_hpc.dataset.files import open_folder, open_source
    from kgqa_hpc.store.sums import read_sums, require_whole

    dataset = open_source(open_folder(run)).run.dataset
    require_whole(dataset, *(name for name in read_sums(dataset) if name.endswith((".parquet", ".jsonl"))))
    columns, rows = ask(dataset, query)
    table = pandas.DataFrame(rows, columns=columns).to_string(index=False, max_colwidth=80)
    documents = [dict(zip(columns, row, strict=True)) for row in rows]
    print_result(documents, table if rows else "no rows", as_json)
