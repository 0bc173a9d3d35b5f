"""Commands that measure the reliability of judges without human ratings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kgqa_hpc.cli.app import AsJson, TrustConfig, print_result

Source = Annotated[Path, typer.Argument(metavar="SOURCE", help="A merged run, or JSON lines with verdicts.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Random seed.")]


def panel(
    source: Source,
    column: Annotated[
        list[str] | None,
        typer.Option(help="Compare columns of labels (question_type) instead of verdicts; twice or more."),
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compare the judges of a run: acceptance of each judge and rule, lone dissenters, and agreement."""
    from kgqa_hpc.plugins.evaluation import panel as room

    if column:
        document = room.label_table(source, column, seed=seed)
        print_result(document, room.render_labels(document), as_json)
    else:
        document = room.panel_table(source, seed=seed)
        print_result(document, room.render(document), as_json)


def retest(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A merged run with judges.")],
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Folder for the new answers, from which the command resumes."),
    ],
    perturb: Annotated[
        list[str] | None,
        typer.Option(
            help="same: unchanged; order: options, documents or sentences in another order; longer: the answer said "
            "twice. Repeatable; default: all three."
        ),
    ] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="Name of a judge; may be repeated; default: all.")
    ] = None,
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="Number of pairs to draw.")] = 200,
    seed: Seed = 0,
    trust_config: TrustConfig = False,
    as_json: AsJson = False,
) -> None:
    """Repeat a run's judgements on the same pairs, unchanged and perturbed: test-retest, position and length bias."""
    from kgqa_hpc.plugins.evaluation import perturb as room
    from kgqa_hpc.plugins.evaluation import studies

    names: list[str] = list(dict.fromkeys(perturb or room.PERTURBATIONS))
    document = studies.retest(
        run, folder, perturb=names, judges=judge or [], number=number, seed=seed, trust=trust_config
    )
    print_result(document, room.render(document), as_json)


def hallucination(
    before: Annotated[
        Path, typer.Argument(metavar="BEFORE", help="Audit run over the pairs before cleaning.")
    ],
    after: Annotated[
        Path, typer.Argument(metavar="AFTER", help="Audit run over the pairs that cleaning kept.")
    ],
    panel: Annotated[
        Path | None, typer.Option(help="Run that did the cleaning; none of its judges may be an auditor.")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Report hallucination rates before and after cleaning, by judge, and both summary factors."""
    from kgqa_hpc.plugins.evaluation import hallucination as room

    document = room.audit(before, after, panel, seed=seed)
    print_result(document, room.render(document), as_json)
