"""The command that names the nodes of an imported graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kgqa_hpc.cli.app import AsJson, Run, TrustConfig, print_result


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
    from kgqa_hpc.errors import InputError
    from kgqa_hpc.kg.load import tables_folder
    from kgqa_hpc.plugins.biokg.hydrate.command import hydrate_run, render
    from kgqa_hpc.runs import open_for_work
    from kgqa_hpc.runs.trust import require_own

    folder, config = open_for_work(run)
    configured = None if config.graph is None or config.graph.hydrate is None else Path(config.graph.hydrate)
    if (chosen := recipe or configured) is None:
        raise InputError("which recipe?", "--recipe FILE, or graph.hydrate in the configuration")
    if web and recipe is None:
        require_own(folder, f"graph.hydrate: {chosen}", trust=trust_config)
    tables = None if config.graph is None else tables_folder(config.graph)
    document = hydrate_run(folder, chosen, tables, web=web)
    print_result(document, render(document), as_json)
