"""The verb that adds a judge to a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kgqa_hpc.cli.app import Run, TrustConfig, app, say


@app.command()
def judge(
    run: Run,
    prompt: Annotated[str, typer.Option(help="A judging prompt by name, or a file NAME.md.")],
    engine: Annotated[
        Path | None,
        typer.Option(help="YAML with the keys of `engine:`, or a whole configuration; default: the run's."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of judge and pass; default: the prompt's.")] = None,
    trust_config: TrustConfig = False,
) -> None:
    """Ask one more judge about the pairs of a run; nothing is generated again. Then merge."""
    from kgqa_hpc.cli.options import engine_section
    from kgqa_hpc.run import Run as AnyRun

    AnyRun(run).judge(prompt, engine=engine_section(engine), name=name, trust=trust_config)
    say(f"judged as {name or Path(prompt).stem}; next: kgqa merge {run}")
