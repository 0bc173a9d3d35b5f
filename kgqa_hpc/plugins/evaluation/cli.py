"""Commands that evaluate a dataset, its judges, or a model's answers."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kgqa_hpc.cli.app import AsJson, Config, Run, Threads, TrustConfig, print_result, say
from kgqa_hpc.errors import InputError
from kgqa_hpc.terminal import note
from kgqa_hpc.text.plain_text import aligned

human = typer.Typer(
    help="Human evaluation: draw a sample of the pairs to rate, and analyse the ratings.",
    no_args_is_help=True,
)

Ratings = Annotated[
    list[Path], typer.Argument(metavar="RATINGS.csv...", help="CSV files of ratings, in wide or long form.")
]
Records = Annotated[Path, typer.Argument(metavar="RUN", help="A merged run, or a file of JSON lines.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Random seed.")]


@human.command(name="analyse")
def human_analyse(
    ratings: Ratings,
    key: Annotated[Path | None, typer.Option(help="Key file written by `kgqa human sample`.")] = None,
    llm: Annotated[Path | None, typer.Option(help="Ratings by a model, as one more annotator.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the figures (needs the extra report).")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Analyse ratings: means, shares, accepted against rejected, agreement."""
    from kgqa_hpc.plugins.evaluation import analysis
    from kgqa_hpc.plugins.evaluation.ratings import read_ratings, with_key

    read = with_key(read_ratings(ratings), key) if key else read_ratings(ratings)
    document = analysis.analyse(read, read_ratings([llm]) if llm else None, seed=seed)
    for path in analysis.rating_figures(read, out) if out else ():
        note(str(path))
    print_result(document, analysis.render(document), as_json)


@human.command(name="sample")
def human_sample(
    run: Records,
    sheet: Annotated[Path, typer.Argument(metavar="OUT.csv", help="Sheet to write; its key goes beside it.")],
    number: Annotated[int | None, typer.Option(min=1, help="Number of pairs; default: from --power.")] = None,
    by: Annotated[str, typer.Option(help="Column whose values the sample covers evenly.")] = "group",
    where: Annotated[str | None, typer.Option(metavar="SQL", help="SQL condition on the records.")] = None,
    show: Annotated[list[str] | None, typer.Option(help="Further column to show; repeatable.")] = None,
    expected: Annotated[float, typer.Option(help="Expected share of good pairs among the accepted.")] = 0.75,
    difference: Annotated[float, typer.Option(help="Smallest difference from --expected to detect.")] = 0.2,
    power: Annotated[float, typer.Option(min=0.01, max=0.999, help="Statistical power of the test.")] = 0.8,
    alpha: Annotated[float, typer.Option(min=0.0001, max=0.5, help="Significance level, two-sided.")] = 0.05,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Draw accepted and rejected pairs to be rated."""
    from kgqa_hpc.plugins.evaluation import human_sample as module

    aim = module.Aim(expected, difference, power, alpha)
    sampling: Any = {"by": by, "where": where, "show": show or (), "aim": aim, "seed": seed}
    document = module.draw_sample(run, sheet, number=number, **sampling)
    print_result(document, module.render(document), as_json)


@human.command(name="page")
def human_page(
    sheet: Annotated[Path, typer.Argument(metavar="OUT.csv", help="Sheet written by `kgqa human sample`.")],
    page: Annotated[Path, typer.Argument(metavar="PAGE.html", help="The page to write.")],
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Rating question-answer pairs",
) -> None:
    """Write one offline HTML page on which people rate the sheet."""
    from kgqa_hpc.plugins.evaluation.human_sample import write_page

    say(f"{page}: {write_page(sheet, page, title=title):,} items")


def study(
    config: Config,
    run: Run,
    price: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="READ WRITTEN", help="Prices of a million prompt and completion tokens."),
    ] = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Score and compare variants of a prompt, model or setting."""
    from kgqa_hpc.plugins.evaluation import study as module

    document = module.study(config, run, threads=threads, price=price)
    print_result(document, f"{module.render(document)}\n\n{run / 'study'}", as_json)


def score(
    predictions: Annotated[Path, typer.Argument(metavar="PREDICTIONS", help="JSON lines with id and text.")],
    references: Annotated[
        Path, typer.Argument(metavar="REFERENCES", help="JSON lines with id, text and any columns.")
    ],
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Column to group by; repeatable. Default: organism_group, functional_class, taxonomy, "
            "functions, group."
        ),
    ] = None,
    missing: Annotated[
        Literal["error", "empty"], typer.Option(help="Treatment of references without a prediction.")
    ] = "error",
    joined: Annotated[Path | None, typer.Option(help="Write the pairs for a judge here; no scores.")] = None,
    judged: Annotated[
        Path | None, typer.Option(help="Run of the step judge_prediction over the file of --joined.")
    ] = None,
    plugin: Annotated[Path | None, typer.Option(help="Python file with metrics of your own.")] = None,
    resamples: Annotated[int, typer.Option(min=0, help="Bootstrap samples; 0: no intervals.")] = 1000,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Score predictions by BLEU, ROUGE, METEOR, CIDEr and a judge, overall and per group."""
    from kgqa_hpc.plugins.evaluation import score as module
    from kgqa_hpc.registry import load_plugin_file
    from kgqa_hpc.store.atomic import make_folder

    if plugin:
        load_plugin_file(plugin.resolve())
    pairs = module.read_pairs(predictions, references, missing=missing)
    if joined:
        make_folder(joined.parent)
        module.write_joined(joined, pairs.rows, pairs.predictions)
        document = {"joined": str(joined), "pairs": len(pairs.rows)}
        print_result(document, f"{joined}: {len(pairs.rows):,} pairs", as_json)
    else:
        document = module.score(pairs, by=by or None, judged=judged, resamples=resamples, seed=seed)
        print_result(document, module.render(document), as_json)


def grounding(source: Records, as_json: AsJson = False) -> None:
    """Report documents that support the pairs, and the share of verified quotes."""
    from kgqa_hpc.plugins.evaluation.records import records

    document = grounding_counts(records(source), str(source))
    quotes = document["quotes"]
    rows = [(n, f"{number:,}") for n, number in document["relevant_documents"].items()]
    lines = [
        *aligned([("relevant", "pairs"), *rows]),
        f"{document['pairs']:,} pairs, {document['mean']:.2f} relevant documents each; "
        f"{document['share_without']:.1%} have none",
        f"quotes: {quotes['kept']:,} verified, {quotes['dropped']:,} dropped: not in their document",
    ]
    print_result(document, "\n".join(lines), as_json)


def grounding_counts(records: Iterable[Mapping[str, Any]], where: str) -> dict[str, Any]:
    """Counts of the step `ground`'s relevant documents and quotes, as plain data (as in BioGraphletQA, 3.4, Figure 7).

    `relevant_documents[n]`: number of pairs with n relevant documents. `quotes`: verified quotes, and quotes dropped
    because they do not occur in their document. Raises InputError when no record has gone through `ground`.
    """
    counts: Counter[int] = Counter()
    quotes = {"kept": 0, "dropped": 0}
    for record in records:
        if isinstance(relevant := record.get("relevant_documents"), int):
            counts[relevant] += 1
            for quote_kind in quotes:
                quotes[quote_kind] += record.get(f"quotes_{quote_kind}") or 0
    if not counts:
        raise InputError(f"{where}: no record has relevant_documents", "the step ground adds them")
    pairs = counts.total()
    return {
        "pairs": pairs,
        "relevant_documents": {str(n): counts[n] for n in range(max(counts) + 1)},
        "mean": sum(n * number for n, number in counts.items()) / pairs,
        "share_without": counts[0] / pairs,
        "quotes": quotes,
    }


def diversity(
    run: Records,
    against: Annotated[Path | None, typer.Option(help="Second run or file, to compare.")] = None,
    field: Annotated[str, typer.Option(help="Field of the records to analyse.")] = "question",
    topics: Annotated[int, typer.Option(min=1, help="Number of topics.")] = 22,
    model: Annotated[
        Path | None, typer.Option(help="Folder of an embedding model (needs the extra embeddings).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for figures (extra report; for the map extra umap).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of samples and topics.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure the diversity of the accepted questions."""
    from kgqa_hpc.plugins.evaluation import diversity as module

    document = module.variety(run, against, field=field, topics=topics, seed=seed, model=model, figures=out)
    print_result(document, module.render(document), as_json)


Source = Annotated[Path, typer.Argument(metavar="SOURCE", help="A merged run, or JSON lines with verdicts.")]


def calibrate(
    ratings: Ratings,
    judge: Annotated[
        list[Path],
        typer.Option(
            help="Merged run, JSON lines with id and verdicts, or a configuration whose judges are asked now; "
            "repeatable."
        ),
    ],
    keep: Annotated[Path | None, typer.Option(help="Folder for the judges' answers, to resume from.")] = None,
    feature: Annotated[
        list[str] | None, typer.Option(help="Feature that serves as a judge's score; repeatable.")
    ] = None,
    width: Annotated[
        float, typer.Option(min=0.005, max=1.0, help="Half width of kappa's 95 % interval to plan for.")
    ] = 0.10,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compare judges and panels with human ratings, and find the best rule."""
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
        list[str] | None, typer.Option(help="Compare these columns of labels instead of verdicts.")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compare the judges and rules of a run."""
    from kgqa_hpc.plugins.evaluation import judges as module

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
            help="same, order (of options, documents or sentences), longer (the answer twice); "
            "repeatable; default: all."
        ),
    ] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="Label of a judge; repeatable; default: all.")
    ] = None,
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="Pairs to draw.")] = 200,
    seed: Seed = 0,
    trust_config: TrustConfig = False,
    as_json: AsJson = False,
) -> None:
    """Repeat a run's judgements on the same pairs, unchanged and perturbed."""
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
    """Report hallucination rates before and after cleaning, by judge."""
    from kgqa_hpc.plugins.evaluation.judges import audit, render_audit

    document = audit(before, after, panel, seed=seed)
    print_result(document, render_audit(document), as_json)
