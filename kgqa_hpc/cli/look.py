"""Commands that change no run: status, plan, explain, replay, doctor, count, trials of a configuration, and its graph.

`kgqa kg` shows the graph of a run: statistics, one node, search by name, export.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from kgqa_hpc.cli.app import AsJson, Config, Run, Threads, TrustConfig, app, print_result, say, seconds
from kgqa_hpc.errors import InputError
from kgqa_hpc.text.plain_text import shell_word


@app.command()
def status(
    run: Run,
    watch: Annotated[bool, Option("--watch", help="Refresh until the run is complete.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show finished and remaining work, speed, and stalled workers."""
    from kgqa_hpc.stages import standing
    from kgqa_hpc.status import render as room

    if watch and as_json:
        raise InputError(
            "--watch and --json exclude each other", f"repeat kgqa status {shell_word(run)} --json"
        )
    if watch:
        room.watch(lambda: standing(run))
    else:
        now = standing(run)
        print_result(now, room.render(now), as_json)


@app.command()
def plan(
    run: Run,
    gpus: Annotated[int, Option(min=1, help="GPUs that work in parallel.")] = 1,
    time: Annotated[
        str | None, Option(help="Time limit of a job; default: runtime.time_limit or 2 days.")
    ] = None,
    pilot: Annotated[
        Path | None, Option(help="Small finished run on the same engine, or the JSON of kgqa bench.")
    ] = None,
    pilot_gpus: Annotated[int, Option(min=1, help="GPUs of the pilot run.")] = 1,
    tokens_per_second: Annotated[
        float | None, Option(min=0.01, help="Tokens that one GPU generates per second.")
    ] = None,
    price: Annotated[
        tuple[float, float] | None, Option(help="Prices of a million input and a million output tokens.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate GPU-hours, wall time, jobs, disk and cost of a run."""
    from kgqa_hpc.status import forecast as room

    document = room.plan(
        run,
        gpus=gpus,
        limit=None if time is None else seconds("--time", time),
        pilot=pilot,
        pilot_gpus=pilot_gpus,
        tokens_per_s=tokens_per_second,
        price=price,
    )
    print_result(document, room.render(document), as_json)


@app.command()
def explain(
    run: Run,
    items: Annotated[list[str], Argument(metavar="ITEM", help="Ids of records or anchors.")],
    as_json: AsJson = False,
) -> None:
    """Show the full history of items: anchor, prompts, raw outputs, verdicts, versions."""
    from kgqa_hpc.dataset import explain as room

    stories = [room.explain(run, item) for item in items]
    text = "\n\n".join(map(room.render, stories))
    print_result(stories if len(stories) > 1 else stories[0], text, as_json)


@app.command()
def replay(
    run: Run,
    item: Annotated[str, Argument(metavar="ITEM", help="The id of a record or anchor.")],
    trust_config: TrustConfig = False,
    as_json: AsJson = False,
) -> None:
    """Repeat an item's requests and show how the answers differ; RUN stays unchanged."""
    from kgqa_hpc.trials import replay as room

    document = room.replay(run, item, trust=trust_config)
    print_result(document, room.render(document), as_json)


@app.command()
def doctor(
    gpu: Annotated[
        bool, Option("--gpu", help="Also test a GPU kernel, guided decoding, and a start on two GPUs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check this machine, and print the cure of each failed check."""
    from dataclasses import asdict

    from kgqa_hpc import doctor as room

    checks = room.diagnose()
    if gpu:
        checks += room.gpu_checks()
    print_result([asdict(check) for check in checks], room.render(checks), as_json)
    raise typer.Exit(room.exit_code(checks))


@app.command()
def count(
    nodes: Annotated[str, Option(help="CSV with id,name,type, or .gz.")],
    edges: Annotated[str, Option(help="CSV with source_id,target_id,type, or .gz.")],
    min_degree: Annotated[int, Option(min=0, help="Smallest degree of a node.")] = 3,
    max_degree: Annotated[int, Option(min=1, help="Largest degree of a node.")] = 100,
    backend: Annotated[Literal["native", "graph-tool"], Option(help="Program that counts.")] = "native",
    unknown_nodes: Annotated[Literal["error", "drop"], Option(help="Edges with unknown nodes.")] = "error",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Count the 29 graphlet shapes of a reduced graph exactly, without a run."""
    from kgqa_hpc import stages
    from kgqa_hpc.graphlets.shapes import SHAPES

    files = {"source": "csv", "nodes": nodes, "edges": edges, "unknown_nodes": unknown_nodes}
    limits = {"min_degree": min_degree, "max_degree": max_degree}
    document = stages.count({**files, **limits}, backend, threads)
    lines = [f"{document['nodes']:,} nodes, {document['edges']:,} edges"]
    for key, total in document["counts"].items():
        lines.append(f"{key:>3}  {SHAPES[int(key)].name:<34} {total:>26,}")
    print_result(document, "\n".join(lines), as_json)


@app.command()
def bench(
    config: Config,
    run: Annotated[
        Path | None, Option(help="Run with the prompts; default: prompts over CONFIG's graph.")
    ] = None,
    number: Annotated[
        int | None,
        Option("-n", "--number", min=1, help="Prompts per measurement; default: three times its batch."),
    ] = None,
    batch: Annotated[list[int] | None, Option(min=1, help="Requests in flight; repeatable.")] = None,
    out: Annotated[Path | None, Option(help="Also write the JSON here, for plan --pilot.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure CONFIG's engine: tokens per second, latency, cost of guided decoding."""
    import json

    from kgqa_hpc.store.atomic import make_folder, write_file
    from kgqa_hpc.trials import bench as room

    if out is not None:
        make_folder(out.parent)

    def row_done(document: dict[str, Any]) -> None:
        if out is not None:
            write_file(out, json.dumps(document, indent=2).encode() + b"\n")
        lines = room.header(document) if len(document["rows"]) == 1 else []
        for line in (*lines, room.row_line(document["rows"][-1])):
            say(line, aside=as_json)

    document = room.bench(config, run, number=number, batches=batch, row_done=row_done)
    print_result(document, "\n".join(room.summary(document)), as_json)


@app.command()
def preview(
    config: Config,
    number: Annotated[int, Option("-n", "--number", min=1, max=1000, help="Items.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Process a few items with all steps before a run exists."""
    from kgqa_hpc import run as room

    document = room.Run.from_config(config, "preview").preview(number)
    print_result(document, document, as_json)


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


@kg_app.command()
def show(
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


@kg_app.command()
def export(
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
