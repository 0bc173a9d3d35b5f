"""The command that names the nodes of an imported graph, with its report as a file and as text."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgqa_hpc.cli.app import AsJson, Run, TrustConfig, print_result
from kgqa_hpc.errors import InputError, StoppedEarly

if TYPE_CHECKING:
    from kgqa_hpc.store.run_folder import RunFolder

_REPORT = "hydration.json"
_ODD = ("duplicates", "overlong", "identifiers", "control_characters", "underscores", "suffixes")


def hydrate(
    run: Run,
    recipe: Annotated[
        Path | None,
        typer.Option(
            help="Recipe file that says which table names which class of nodes; default: graph.hydrate."
        ),
    ] = None,
    web: Annotated[bool, typer.Option("--web", help="Also query the web services of the recipe.")] = False,
    trust_config: TrustConfig = False,
    as_json: AsJson = False,
) -> None:
    """Name the nodes of an imported graph from tables and web services, by a recipe."""
    from kgqa_hpc.kg.load import tables_folder
    from kgqa_hpc.runs import open_for_work
    from kgqa_hpc.runs.trust import require_own

    folder, config = open_for_work(run)
    configured = None if config.graph is None or config.graph.hydrate is None else Path(config.graph.hydrate)
    if (chosen := recipe or configured) is None:
        raise InputError("which recipe?", "--recipe FILE, or graph.hydrate in the configuration")
    if web and recipe is None:
        require_own(folder, f"graph.hydrate: {chosen}", trust=trust_config)
    tables = None if config.graph is None else tables_folder(config.graph)
    document = _hydrate_run(folder, chosen, tables, web=web)
    print_result(document, _render(document), as_json)


def _hydrate_run(run: RunFolder, recipe_file: Path, tables: Path | None, *, web: bool) -> dict[str, Any]:
    """Name the nodes of RUN/kg.h5; the report also stands in RUN/stats/hydration.json.

    `tables`: the graph's own folder, where class tables lie. Raises InputError when anchors were drawn from
    the graph already, StoppedEarly (after everything was written) when a web service did not answer.
    """
    import orjson

    from kgqa_hpc.kg.file import read_graph, write_graph
    from kgqa_hpc.plugins.biokg.hydrate import hydrate as hydration
    from kgqa_hpc.plugins.biokg.hydrate.recipe import load_recipe
    from kgqa_hpc.store.atomic import make_folder, write_file
    from kgqa_hpc.store.fingerprint import graph_origin

    if not run.kg.exists():
        raise InputError(f"{run.kg} is missing", f"first: kgqa import {run.path}")
    graph = read_graph(run.kg)
    named, report = hydration.hydrate(
        graph, load_recipe(recipe_file), folder=tables, cache=run.path / "hydration", web=web
    )
    before, after = ((g.names.tolist(), dict(g.node_properties), dict(g.attributes)) for g in (graph, named))
    if before != after:
        if run.anchors.exists():
            raise InputError(
                f"{run.anchors}: anchors with the old names were drawn already",
                "hydrate a new run before sampling",
            )
        write_graph(run.kg, named, {}, graph_origin(run.manifest().sections))
    make_folder(run.stats)
    document = dataclasses.asdict(report)
    write_file(run.stats / _REPORT, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
    if report.unreachable:
        raise StoppedEarly(
            f"{report.unreachable:,} ids got no answer; all others are kept", "run the same command again"
        )
    return document


def _render(document: dict[str, Any]) -> str:
    """Coverage per class, as in the paper's Appendix B, and what the user should check."""
    lines = []
    for kind, row in document["classes"].items():
        spaces = ", ".join(f"{space} {count:,}" for space, count in row["by_space"].items())
        lines.append(f"{kind[:24]:<26}{row['nodes']:>9,} nodes {row['named']:>9,} named  {spaces}")
        odd = [(key.replace("_", " "), row.get(key, 0)) for key in _ODD]
        if any(count for _, count in odd):
            lines.append(f"{'':<26}{', '.join(f'{count:,} {noun}' for noun, count in odd if count)}")
    for space, row in document["spaces"].items():
        if row["table_is_missing"]:
            lines.append(f"space {space}: there is no table {row['table']}")
        if row["conflicts"]:
            lines.append(f"space {space}: {row['conflicts']:,} ids have several names, the first counts")
        if row.get("not_asked"):
            lines.append(f"space {space}: {row['not_asked']:,} ids to ask the web for (--web)")
    return "\n".join(lines)
