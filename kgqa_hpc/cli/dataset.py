"""The verbs around a finished dataset: read it, export it, join several, publish it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kgqa_hpc.cli.app import AsJson, Run, app, print_result

Condition = Annotated[
    str | None,
    typer.Option(
        "--where", metavar="SQL", help="Only records for which an SQL expression over their columns is true."
    ),
]
Difficulty = Annotated[
    list[str] | None,
    typer.Option("--difficulty", metavar="LEVEL", help="Only easy, medium or hard; may be repeated."),
]
Score = Annotated[
    list[str] | None,
    typer.Option("--score", metavar="NAME=LEAST", help="Only with a score so high; may be repeated."),
]


class Extra(StrEnum):
    """Additions to exported records."""

    reasoning = "reasoning"


@app.command()
def show(
    run: Run,
    accepted: Annotated[bool, typer.Option("--accepted", help="Accepted pairs (the default).")] = False,
    rejected: Annotated[bool, typer.Option("--rejected", help="Rejected pairs, with the reason.")] = False,
    lost: Annotated[bool, typer.Option("--lost", help="Items that never became a judged pair.")] = False,
    group: Annotated[
        str | None, typer.Option("--group", help="Of this group alone, e.g. 'shape 11'.")
    ] = None,
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="How many.")] = 20,
    where: Condition = None,
    difficulty: Difficulty = None,
    score: Score = None,
    as_json: AsJson = False,
) -> None:
    """Records of the dataset of a run, or of a combined one, to read."""
    from kgqa_hpc.dataset import show as room
    from kgqa_hpc.dataset.where import Where
    from kgqa_hpc.errors import InputError

    if accepted + rejected + lost > 1:
        raise InputError("--accepted, --rejected and --lost: choose one")
    which: room.Which = "rejected" if rejected else "lost" if lost else "accepted"
    records = room.show(run, which, group, number, Where.of(difficulty or (), score or (), where))
    print_result(records, room.render(records) or room.why_none(run, which), as_json)


@app.command()
def export(
    run: Run,
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="The form; see docs/dataset.md.")],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where to; replaced if an export.")],
    extra: Annotated[
        Extra | None, typer.Option("--with", help="The writer's reasoning before each answer.")
    ] = None,
    where: Condition = None,
    difficulty: Difficulty = None,
    score: Score = None,
    as_json: AsJson = False,
) -> None:
    """Write the accepted pairs of a run or a combined dataset in another form, by part where the dataset is split."""
    from kgqa_hpc.dataset.exports.source import export as write
    from kgqa_hpc.dataset.exports.source import open_dataset
    from kgqa_hpc.dataset.where import Where

    chosen = Where.of(difficulty or (), score or (), where)
    written = write(open_dataset(run), to, out, chosen, reasoning=extra is Extra.reasoning)
    files = [str(path) for path in written]
    print_result(files, "\n".join(files), as_json)


@app.command()
def combine(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder of the combined dataset.")],
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Merged runs, two or more.")],
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Also runs that differ in prompts or models.")
    ] = False,
    share: Annotated[
        list[float] | None,
        typer.Option(
            "--share", metavar="SHARE", help="Of the accepted records; once for each run, in their order."
        ),
    ] = None,
    number: Annotated[
        int | None, typer.Option("--number", min=1, help="Accepted records in all; default: the most.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the draw.")] = 42,
    where: Condition = None,
    difficulty: Difficulty = None,
    score: Score = None,
    as_json: AsJson = False,
) -> None:
    """Join the datasets of several runs into one, every id once."""
    from kgqa_hpc.dataset import combine as room
    from kgqa_hpc.dataset.mixture import Mixture
    from kgqa_hpc.dataset.where import Where
    from kgqa_hpc.errors import InputError
    from kgqa_hpc.store.run_folder import RunFolder

    if number is not None and not share:
        raise InputError("--number: in which shares?", "say --share once for each run")
    mixture = Mixture(share, number, seed) if share else None
    chosen = Where.of(difficulty or (), score or (), where)
    document = room.combine(
        out, [RunFolder.open(run) for run in runs], mixed=mixed, where=chosen, mixture=mixture
    )
    total = ", ".join(f"{document[name]:,} {name}" for name in room.COUNTS if document[name])
    print_result(document, f"{out}: {total}", as_json)


@app.command()
def publish(
    run: Run,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to; replaced if published before.")],
    to: Annotated[
        list[str] | None, typer.Option("--to", metavar="FORMAT", help="Also in this form; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a folder that can be uploaded as it is, and say what is missing. Nothing is uploaded."""
    from dataclasses import asdict

    from kgqa_hpc.dataset import publish as room
    from kgqa_hpc.store.run_folder import RunFolder

    done = room.publish(RunFolder.open(run), folder, to or [])
    print_result(asdict(done), done, as_json)


@app.command()
def sql(
    run: Run,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="One SELECT statement (DuckDB).")],
    as_json: AsJson = False,
) -> None:
    """Ask the dataset in SQL: views accepted, rejected, lost and nodes. Reads nothing else, changes nothing."""
    import pandas

    from kgqa_hpc.dataset.exports.source import open_dataset, open_source
    from kgqa_hpc.dataset.whole import read_sums, require_whole
    from kgqa_hpc.sql_views import query as ask

    dataset = open_source(open_dataset(run)).run.dataset
    require_whole(dataset, *(name for name in read_sums(dataset) if name.endswith((".parquet", ".jsonl"))))
    columns, rows = ask(dataset, query)
    table = pandas.DataFrame(rows, columns=columns).to_string(index=False, max_colwidth=80)
    documents = [dict(zip(columns, row, strict=True)) for row in rows]
    print_result(documents, table if rows else "no rows", as_json)
