"""The verb that adds a judge to a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kgqa_hpc.cli.app import Run, app, say


@app.command()
def judge(
    run: Run,
    prompt: Annotated[str, typer.Option(help="A judging prompt by name, or a file NAME.md.")],
    engine: Annotated[
        Path | None,
        typer.Option(help="YAML with the keys of `engine:`, or a whole configuration; default: the run's."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of judge and pass; default: the prompt's.")] = None,
    trust_config: Annotated[bool, typer.Option("--trust-config", help="As of `kgqa run`.")] = False,
) -> None:
    """Ask one more judge about the pairs of a run; nothing is generated again. Then merge."""
    from kgqa_hpc.errors import InputError
    from kgqa_hpc.runs import add_pass
    from kgqa_hpc.store.yaml_file import load_yaml
    from kgqa_hpc.work.run import run_command

    file = Path(prompt) if prompt.endswith(".md") else None
    if file is not None and not file.is_file():
        raise InputError(f"{file}: no such prompt", "name a prompt of prompts/, or a file NAME.md")
    label = name or (file.stem if file else prompt)
    settings: dict[str, object] = {
        "name": label,
        "steps": [{"use": "judge", "prompt": file.stem if file else prompt, "as": label}],
    }
    if engine is not None:
        try:
            data = load_yaml(engine)
        except FileNotFoundError:
            raise InputError(f"{engine}: no such file", "name a YAML file with an engine") from None
        settings["engine"] = data["engine"] if isinstance(data, dict) and "engine" in data else data
    add_pass(run, settings, file)
    run_command(run, trust=trust_config)
    say(f"judged as {label}; next: kgqa merge {run}")
