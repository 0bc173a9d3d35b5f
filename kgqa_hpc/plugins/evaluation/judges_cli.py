"""Commands that measure judges: against human ratings, against each other, and against themselves."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from kgqa_hpc.cli.app import AsJson, TrustConfig, print_result
from kgqa_hpc.plugins.evaluation.cli import Ratings, Seed

Source = Annotated[Path, typer.Argument(metavar="SOURCE", help="A merged run, or JSON lines with verdicts.")]


def calibrate(
    ratings: Ratings,
    judge: Annotated[
        list[Path],
        typer.Option(
            help="Merged run, JSON lines with id and verdicts, or a configuration (.yaml) whose judges are asked "
            "now; repeat it for a panel."
        ),
    ],
    keep: Annotated[Path | None, typer.Option(help="Folder for the judges' answers, to resume from.")] = None,
    feature: Annotated[
        list[str] | None, typer.Option(help="Feature that serves as a judge's score; may be repeated.")
    ] = None,
    width: Annotated[
        float, typer.Option(min=0.005, max=1.0, help="Wanted half width of kappa's 95 % interval.")
    ] = 0.10,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compare judges and panels with human ratings: precision, recall, kappa, AUC, the best rule."""
    from kgqa_hpc.plugins.evaluation import calibration
    from kgqa_hpc.plugins.evaluation.ratings import read_ratings
    from kgqa_hpc.plugins.evaluation.records import read_verdicts
    from kgqa_hpc.plugins.evaluation.retest import ask_judges

    read = read_ratings(ratings)
    with tempfile.TemporaryDirectory(prefix="kgqa-calibrate-") as scratch:
        sources = [
            ask_judges(path, read, (keep or Path(scratch)) / path.stem)
            if path.suffix in (".yaml", ".yml")
            else path
            for path in judge
        ]
        verdicts = read_verdicts(read, sources, feature or ())
    document = calibration.calibrate(read, verdicts, width=width, seed=seed)
    print_result(document, calibration.render(document), as_json)


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
    from kgqa_hpc.plugins.evaluation import panel as module

    if column:
        document = module.label_table(source, column, seed=seed)
        print_result(document, module.render_labels(document), as_json)
    else:
        document = module.panel_table(source, seed=seed)
        print_result(document, module.render(document), as_json)


def retest(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A merged run with judges.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder for the answers, to resume from.")],
    perturb: Annotated[
        list[str] | None,
        typer.Option(
            help="same: unchanged; order: options, documents or sentences in another order; longer: the answer said "
            "twice. Repeatable; default: all three."
        ),
    ] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="Label of a judge; repeatable; default: all.")
    ] = None,
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="Number of pairs to draw.")] = 200,
    seed: Seed = 0,
    trust_config: TrustConfig = False,
    as_json: AsJson = False,
) -> None:
    """Repeat a run's judgements on the same pairs, unchanged and perturbed: test-retest, position and length bias."""
    from kgqa_hpc.plugins.evaluation import retest as module

    names: list[str] = list(dict.fromkeys(perturb or module.PERTURBATIONS))
    document = module.retest(
        run, folder, perturb=names, judges=judge or [], number=number, seed=seed, trust=trust_config
    )
    print_result(document, module.render_retest(document), as_json)


def hallucination(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="Audit of the pairs before cleaning.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Audit of the pairs that cleaning kept.")],
    panel: Annotated[
        Path | None, typer.Option(help="Run that did the cleaning; none of its judges may be an auditor.")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Report hallucination rates before and after cleaning, by judge, and both summary factors."""
    from kgqa_hpc.plugins.evaluation import hallucination as module

    document = module.audit(before, after, panel, seed=seed)
    print_result(document, module.render(document), as_json)
