"""Commands on a run's graph: statistics, one node, search by name, export."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from kgqa_hpc.cli.app import AsJson, Run, app, print_result, say
from kgqa_hpc.errors import InputError

kg_app = typer.Typer(help="Look at the knowledge graph of a run.", no_args_is_help=True)
app.add_typer(kg_app, name="kg")

Limit = Annotated[int, Option("-n", min=0, help="Number of entries to show.")]


def _graph(run: Path) -> Any:
    from kgqa_hpc.kg.file import read_graph
    from kgqa_hpc.store.run_folder import RunFolder

    path = RunFolder.open(run).kg
    if not path.exists():
        raise InputError(f"{path} is missing", f"first: kgqa import {run}")
    return read_graph(path)


@kg_app.command()
def stats(
    run: Run,
    figures: Annotated[
        Path | None, Option(help="Folder for figures of the statistics (PNG); default: no figures.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show node types, relations with direction, degrees and components, before and after reduction."""
    from kgqa_hpc.kg import look
    from kgqa_hpc.kg.reduce import reduce_to
    from kgqa_hpc.runs import open_run

    graph = _graph(run)
    _, config = open_run(run)
    document = look.stats(graph)
    try:
        reduced = None if config.graph is None else reduce_to(graph, config.graph)
    except InputError as problem:  # show the unreduced graph, which helps to correct the settings
        say(f"the configured reduction: {problem}", aside=True)
        document["reduction_error"] = problem.message
        reduced = None
    if reduced is not None:
        document["reduced"] = look.stats(reduced.graph)
        document["reduction"] = reduced.counts
    if figures is not None:
        from kgqa_hpc.kg.profile import Profiles, draw_figures, profile

        after = None if reduced is None else profile(reduced.graph)
        draw_figures(figures, Profiles(profile(graph), after))
    print_result(document, look.stats_text(document), as_json)


@kg_app.command()
def show(
    run: Run,
    node: Annotated[str, Argument(metavar="NODE", help="Id or full name of the node.")],
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """Show a node with its properties and all its edges."""
    from kgqa_hpc.kg import look

    graph = _graph(run)
    document = look.neighbourhood(graph, look.place_of(graph, node))
    print_result(document, look.node_text(document, limit), as_json)


@kg_app.command()
def find(
    run: Run,
    text: Annotated[str, Argument(metavar="TEXT", help="Part of a name or an id; case is ignored.")],
    kind: Annotated[str | None, Option("--type", help="Only nodes of this type.")] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List the nodes whose name or id contains a text."""
    from kgqa_hpc.kg import look

    document = look.find(_graph(run), text, kind, limit)
    print_result(document, look.found_text(document), as_json)


@kg_app.command()
def export(
    run: Run,
    file: Annotated[
        Path,
        Argument(metavar="FILE", help="File to write; its suffix selects the format: .nt .ttl .graphml .csv"),
    ],
    as_json: AsJson = False,
) -> None:
    """Write the imported graph, without excluded edge types, for other programs."""
    from kgqa_hpc.kg.export import export_graph
    from kgqa_hpc.runs import open_run

    graph = _graph(run)
    _, config = open_run(run)
    excluded = [] if config.graph is None else list(config.graph.exclude_edge_types)
    files = [str(path) for path in export_graph(graph, excluded, file)]
    document = {"files": files, "nodes": graph.num_nodes, "excluded_edge_types": excluded}
    print_result(document, "\n".join(files), as_json)
