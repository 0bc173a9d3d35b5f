"""Commands that test a configuration before a run exists: `preview` of a few items, `bench` of the engine's speed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kgqa_hpc.cli.app import AsJson, Config, app, print_result, say


@app.command()
def bench(
    config: Config,
    run: Annotated[
        Path | None,
        typer.Option(
            "--run", help="Run whose prompts to measure with; default: prompts over CONFIG's graph."
        ),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option(
            "-n", "--number", min=1, help="Prompts per measurement; default: three times its batch."
        ),
    ] = None,
    batch: Annotated[
        list[int] | None,
        typer.Option("--batch", min=1, help="Number of requests in flight; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Also write the JSON here, after each measurement, for plan --pilot."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure CONFIG's engine on this machine: tokens per second, latency, cost of guided decoding."""
    import json
    from typing import Any

    from kgqa_hpc.store.atomic import write_file
    from kgqa_hpc.trials import bench as room

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
    number: Annotated[int, typer.Option("-n", "--number", min=1, max=1000, help="Number of items.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Process a few items with all steps before a run exists; show tokens and seconds of each."""
    from kgqa_hpc import run as room

    document = room.Run.from_config(config, "preview").preview(number)
    print_result(document, document, as_json)
