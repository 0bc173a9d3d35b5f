"""Commands on what a run holds: its dataset (show, export, combine, publish, query), and its knowledge graph.

`kgqa kg` gives statistics of the graph, one node, nodes by name, and the graph in other formats.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from kgqa_hpc.cli.app import AsJson, Run, app, print_result, say
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
        raise InputError("--number needs the shares of the runs", "give --share once for each run")
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


kg_app = typer.Typer(help="Look at the knowledge graph of a run.", no_args_is_help=True)
app.add_typer(kg_app, name="kg")

Limit = Annotated[int, Option("-n", min=0, help="Entries to show.")]


def _graph(run: Path) -> Any:
    from kgqa_hpc.kg.file import read_graph
    from kgqa_hpc.store.run_folder import RunFolder

    path = RunFolder.open(run).kg
    if not path.exists():
        raise InputError(f"{path} is missing", f"first: kgqa import {shell_word(run)}")
    return read_graph(path)


@kg_app.command()
def stats(
    run: Run,
    figures: Annotated[Path | None, Option(help="Folder for figures (PNG).")] = None,
    as_json: AsJson = False,
) -> None:
    """Show types, relations, degrees and components, before and after reduction."""
    from kgqa_hpc.kg import describe
    from kgqa_hpc.kg.reduce import reduce_to
    from kgqa_hpc.runs import open_run

    graph = _graph(run)
    _, config = open_run(run)
    document = describe.stats(graph)
    try:
        reduced = None if config.graph is None else reduce_to(graph, config.graph)
    except InputError as problem:  # show the unreduced graph, which helps to correct the settings
        say(f"the configured reduction: {problem}", aside=True)
        document["reduction_error"] = problem.message
        reduced = None
    if reduced is not None:
        document["reduced"] = describe.stats(reduced.graph)
        document["reduction"] = reduced.counts
    if figures is not None:
        after = None if reduced is None else describe.profile(reduced.graph)
        describe.draw_figures(figures, describe.Profiles(describe.profile(graph), after))
    print_result(document, describe.stats_text(document), as_json)


@kg_app.command(name="show")
def show_node(
    run: Run,
    node: Annotated[str, Argument(metavar="NODE", help="Id or full name of the node.")],
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """Show a node with its properties and all its edges."""
    from kgqa_hpc.kg import describe

    graph = _graph(run)
    document = describe.neighbourhood(graph, describe.place_of(graph, node))
    print_result(document, describe.node_text(document, limit), as_json)


@kg_app.command()
def find(
    run: Run,
    text: Annotated[str, Argument(metavar="TEXT", help="Part of a name or an id; case is ignored.")],
    kind: Annotated[str | None, Option("--type", help="Only nodes of this type.")] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List the nodes whose name or id contains a text."""
    from kgqa_hpc.kg import describe

    document = describe.find(_graph(run), text, kind, limit)
    print_result(document, describe.found_text(document), as_json)


@kg_app.command(name="export")
def export_kg(
    run: Run,
    file: Annotated[
        Path,
        Argument(metavar="FILE", help="File to write; its suffix selects the format: .nt .ttl .graphml .csv"),
    ],
    as_json: AsJson = False,
) -> None:
    """Write the imported graph without excluded edge types."""
    from kgqa_hpc.kg.file import export_graph
    from kgqa_hpc.kg.settings import graph_files
    from kgqa_hpc.runs import open_run

    graph = _graph(run)
    _, config = open_run(run)
    sources = () if config.graph is None else graph_files(config.graph).values()
    parts = (
        [file.with_suffix(f".{part}.csv") for part in ("nodes", "edges")] if file.suffix == ".csv" else [file]
    )
    for part in parts:
        if part.resolve() in {source.resolve() for source in sources}:
            raise InputError(f"{part}: the run was made from this file", "name another one")
    excluded = [] if config.graph is None else list(config.graph.exclude_edge_types)
    files = [str(path) for path in export_graph(graph, excluded, file)]
    document = {"files": files, "nodes": graph.num_nodes, "excluded_edge_types": excluded}
    print_result(document, "\n".join(files), as_json)
