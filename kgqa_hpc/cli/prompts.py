"""Commands on prompts: import of the published pipeline's prompt texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from kgqa_hpc.cli.app import app

prompts_app = typer.Typer(help="Bring prompts from elsewhere.", no_args_is_help=True)
app.add_typer(prompts_app, name="prompts")


@prompts_app.command(name="import")
def prompts_import(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON object of prompt texts, or a single text (.txt).")
    ],
    step: Annotated[
        Literal["generate", "judge", "score"], typer.Option(help="The step that the texts are for.")
    ] = "generate",
    to: Annotated[Path, typer.Option(help="The folder of prompts to write.")] = Path("my_prompts"),
) -> None:
    """Convert a template file of the published pipeline into prompt files; the texts stay unchanged."""
    from kgqa_hpc.prompts.templates import import_templates

    for path in import_templates(file, to, step):
        print(path)
