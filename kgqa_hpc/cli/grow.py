"""Commands that enlarge a run or add to it: a larger sample, a further judge, prompts from elsewhere."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from kgqa_hpc.cli.app import Run, Threads, TrustConfig, app, say
from kgqa_hpc.errors import InputError

prompts_app = typer.Typer(help="Import prompts of other programs.", no_args_is_help=True)
app.add_typer(prompts_app, name="prompts")


@app.command()
def extend(
    run: Run,
    per_shape: Annotated[int | None, Option(min=1, help="Total number of graphlets of each shape.")] = None,
    number: Annotated[
        int | None, Option(min=1, help="Total number of anchors, for other kinds than graphlets.")
    ] = None,
    threads: Threads = None,
    trust_config: TrustConfig = False,
) -> None:
    """Draw a larger sample that contains the old one; answers are kept. Run `run` and `merge` afterwards."""
    from kgqa_hpc.runs.sampling import extend as draw_more

    if (per_shape is None) == (number is None):
        raise InputError("how many? --per-shape N for graphlets, --number N for other kinds")
    say(draw_more(run, per_shape or number or 0, threads, trust=trust_config))
    say(f"next: kgqa run {run}")


@app.command()
def judge(
    run: Run,
    prompt: Annotated[str, Option(help="Name of a judging prompt, or a file NAME.md.")],
    engine: Annotated[
        Path | None,
        Option(
            help="YAML file with the keys of `engine:`, or a whole configuration; default: the run's engine."
        ),
    ] = None,
    name: Annotated[
        str | None, Option(help="Name of the judge and its pass; default: the prompt's name.")
    ] = None,
    trust_config: TrustConfig = False,
) -> None:
    """Add a judge to a run and ask it about every pair; nothing is generated again. Run merge afterwards."""
    from kgqa_hpc.run import Run as AnyRun

    AnyRun(run).judge(prompt, engine=_engine_section(engine), name=name, trust=trust_config)
    say(f"judged as {name or Path(prompt).stem}; next: kgqa merge {run}")


def _engine_section(file: Path | None) -> Any:
    """The engine of a YAML file: the keys of `engine:`, or a whole configuration. Raises InputError."""
    from kgqa_hpc.store.yaml_file import load_yaml

    if file is None:
        return None
    try:
        data = load_yaml(file)
    except FileNotFoundError:
        raise InputError(f"{file}: no such file", "name a YAML file with an engine") from None
    return data["engine"] if isinstance(data, dict) and "engine" in data else data


@prompts_app.command(name="import")
def prompts_import(
    file: Annotated[
        Path, Argument(metavar="FILE", help="JSON object of prompt texts, or a single text (.txt).")
    ],
    step: Annotated[
        Literal["generate", "judge", "score"], Option(help="The step that the texts are for.")
    ] = "generate",
    to: Annotated[Path, Option(help="The folder of prompts to write.")] = Path("my_prompts"),
) -> None:
    """Convert a template file of the published pipeline into prompt files; the texts stay unchanged."""
    from kgqa_hpc.prompts.templates import import_templates

    for path in import_templates(file, to, step):
        print(path)
