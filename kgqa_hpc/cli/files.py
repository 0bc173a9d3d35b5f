"""Commands on files: JSON Schema of the configuration, list of runs, deletion of unneeded files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kgqa_hpc.cli.app import AsJson, Run, app, print_json, print_result


@app.command()
def config(
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of a configuration.")
    ] = False,
) -> None:
    """Print the JSON Schema of a configuration, for editors that complete and check keys."""
    from kgqa_hpc.config.json_schema import FILE, json_schema
    from kgqa_hpc.errors import InputError

    if not schema:
        raise InputError("what of the configuration? --schema prints its JSON Schema", f"> {FILE}")
    print_json(json_schema())


@app.command()
def ls(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Folder to search, three levels deep.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """List the runs below a folder with state, items and accepted items."""
    from kgqa_hpc.status import runs_list as room

    rows = room.runs_below(folder)
    print_result(rows, room.render_runs(rows, folder), as_json)


@app.command()
def clean(
    run: Run,
    yes: Annotated[
        bool, typer.Option("--yes", help="Delete the files; without this option they are only listed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Delete logs, leases, set-aside files and status of a run at rest: nothing that a result needs."""
    from kgqa_hpc.status import runs_list as room

    parts = room.leftovers(run)
    if yes:
        room.clean(parts)
    lines = [f"{part['bytes'] / 1e6:>10,.1f} MB  {part['path']}" for part in parts] or ["nothing to delete"]
    last = [] if yes or not parts else [f"delete it: kgqa clean {run} --yes"]
    print_result(parts, "\n".join([*lines, *last]), as_json)
