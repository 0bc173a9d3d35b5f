"""The verbs that try a configuration before a run exists: a few items, and the engine's speed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kgqa_hpc.cli.app import AsJson, Config, app, print_result


@app.command()
def bench(
    config: Config,
    run: Annotated[
        Path | None, typer.Option("--run", help="Take the prompts of this run; default: of CONFIG's graph.")
    ] = None,
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="Prompts per measurement.")] = 32,
    batch: Annotated[
        list[int] | None, typer.Option("--batch", min=1, help="Requests in flight; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write the JSON here, for plan --pilot.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What CONFIG's engine does on this machine: tokens a second, latency, what guiding costs."""
    import json

    from kgqa_hpc.trials import bench as room

    document = room.bench(config, run, number=number, batches=batch)
    if out is not None:
        from kgqa_hpc.store.atomic import write_file

        write_file(out, json.dumps(document, indent=2).encode() + b"\n")
    print_result(document, room.render(document), as_json)


@app.command()
def preview(
    config: Config,
    number: Annotated[int, typer.Option("-n", "--number", min=1, max=1000, help="Items.")] = 3,
    as_json: AsJson = False,
) -> None:
    """A few items through all steps, with tokens and seconds each, before a run exists."""
    from kgqa_hpc import run as room

    document = room.Run.from_config(config, "preview").preview(number)
    print_result(document, document, as_json)
