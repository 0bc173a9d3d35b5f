"""The verb that adds a judge to a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kgqa_hpc.cli.app import Run, TrustConfig, app, say


@app.command()
def judge(
    run: Run,
    prompt: Annotated[str, typer.Option(help="Name of a judging prompt, or a file NAME.md.")],
    engine: Annotated[
        Path | None,
        typer.Option(
            help="YAML file with the keys of `engine:`, or a whole configuration; default: the run's engine."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the judge and its pass; default: the prompt's name.")
    ] = None,
    trust_config: TrustConfig = False,
) -> None:
    """Add a judge to a run and ask it about every pair; nothing is generated again. Run merge afterwards."""
    from kgqa_hpc.cli.options import engine_section
    from kgqa_hpc.run import Run as AnyRun

    AnyRun(run).judge(prompt, engine=engine_section(engine), name=name, trust=trust_config)
    say(f"judged as {name or Path(prompt).stem}; next: kgqa merge {run}")
