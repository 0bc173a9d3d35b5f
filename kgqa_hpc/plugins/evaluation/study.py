"""Studies: variants of a prompt, model or setting on the same anchors, compared (BioGraphletQA, 3.2.1, 4.1).

The score of an item is the sum of its scoring steps. As published, a pair that could not be read scores 0, and so
does a criterion whose verdict could not be read. Scores come from the run's results, not from its dataset:
every anchor counts with every variant.
"""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from kgqa_hpc.config import RunConfig, load_config
from kgqa_hpc.config.variants import changes, share_anchors
from kgqa_hpc.dataset.read import open_work
from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.compare import compare, recommendation, summarise
from kgqa_hpc.stages import STAGES, init
from kgqa_hpc.steps.variants import MARK
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import iter_result

Price = tuple[float, float]  # per million prompt tokens and completion tokens, in any currency


def study(
    config_file: Path, folder: Path, *, threads: int | None = None, price: Price | None = None
) -> dict[str, Any]:
    """Run a study from its configuration, resumable; its result.

    Writes RUN/study: study.json, study.md and, with matplotlib, the two figures. Raises InputError for a configuration
    without variants or scoring steps, DiskFull, StoreError.
    """
    config = load_config(config_file)
    if config.variants is None:
        cure = "kgqa init --example study FILE shows some"
        raise InputError(f"{config_file}: has no variants to compare", cure)
    run = init(config_file, folder)
    for stage in STAGES:
        if stage.name != "report":
            stage.work(folder, threads)
    rows, labels = read_study(run, config), score_labels(config)
    variants = {name: rows[rows["variant"] == name] for name in changes(config.variants)}
    scores = {name: of_variant["score"].to_numpy() for name, of_variant in variants.items()}
    paired = share_anchors(config.variants)
    comparisons = compare(scores, paired=paired)
    document = {
        "anchors": max(map(len, scores.values())),
        "paired": paired,
        "criteria": labels,
        "variants": [_row(name, part, labels, price, config.seed) for name, part in variants.items()],
        "comparisons": [comparison._asdict() for comparison in comparisons],
        "recommendation": recommendation(comparisons),
    }
    results = run.path / "study"
    make_folder(results)
    write_file(results / "study.json", json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n")
    write_file(results / "study.md", render(document).encode() + b"\n")
    if find_spec("matplotlib"):
        from kgqa_hpc.plugins.evaluation.figures import study_figures

        study_figures(scores, comparisons, results, criteria=len(labels))
    return document


def read_study(run: RunFolder, config: RunConfig) -> pd.DataFrame:
    """A row for each anchor under each variant, ordered by anchor id, so that shared anchors have the same row.

    `score` and `criterion LABEL`: the sum and the scores by step; `read` and `written`: the tokens of all steps except
    the scoring ones, the cost of a dataset; `scoring`: the tokens of the scoring steps, the added cost of the study.
    Raises InputError where the configuration has no variants or no scoring step, or not every anchor was
    answered with every variant.
    """
    labels = score_labels(config)
    if config.variants is None or not labels:
        missing = "variants" if config.variants is None else "steps that score"
        raise InputError(f"{run.path}: has no {missing}, so it is no study", "kgqa init --example study FILE")
    work = open_work(run)
    if len(work.done) < len(work.manifest.names):
        problem = f"{run.path}: not every variant has answered every anchor"
        raise InputError(problem, f"first: kgqa run {run.path}")
    results = (run.result(config.passes[-1].name, shard) for shard in sorted(work.done))
    rows = [_scored(record, labels) for result in results for record in iter_result(result)]
    return pd.DataFrame(rows).sort_values("anchor", kind="stable")


def score_labels(config: RunConfig) -> list[str]:
    """The labels of the scoring steps, in their order."""
    return [step.label for step in config.steps if step.use == "score"]


def _scored(record: dict[str, Any], labels: list[str]) -> dict[str, Any]:
    anchor, _, name = record["id"].rpartition(MARK)
    features = record.get("features") or {}
    values = {f"criterion {label}": float(features.get(label, 0.0)) for label in labels}
    tokens = [entry["tokens"] for entry in record["trace"] if entry["step"] not in labels]
    scoring = [entry["tokens"] for entry in record["trace"] if entry["step"] in labels]
    return {
        "variant": name,
        "anchor": anchor,
        "score": sum(values.values()),
        "lost": record["status"] == "invalid",
        "failed": record["status"] == "failed",
        "unreadable": len((record.get("annotations") or {}).get("unreadable", ())),
        "read": sum(count["prompt"] for count in tokens),
        "written": sum(count["completion"] for count in tokens),
        "scoring": sum(count["prompt"] + count["completion"] for count in scoring),
        **values,
    }


def _row(name: str, rows: pd.DataFrame, labels: list[str], price: Price | None, seed: int) -> dict[str, Any]:
    read, written, scoring = rows[["read", "written", "scoring"]].mean().tolist()
    return {
        "variant": name,
        **summarise(name, rows["score"], seed=seed),
        "unreadable_pairs": int(rows["lost"].sum()),
        "unreadable_verdicts": int(rows["unreadable"].sum()),
        "failed": int(rows["failed"].sum()),
        "prompt_tokens": read,
        "completion_tokens": written,
        "scoring_tokens": scoring,
        "cost_of_1000": None if price is None else (read * price[0] + written * price[1]) / 1000,
        "criteria": {label: float(rows[f"criterion {label}"].mean()) for label in labels},
    }


def render(document: dict[str, Any]) -> str:
    """The study as Markdown."""
    priced = any(row["cost_of_1000"] is not None for row in document["variants"])
    pairing = "the same anchors" if document["paired"] else "each its own anchors, so nothing is paired"
    head = ["variant", "n", "mean", "95 % interval", "SD", "unreadable pairs", "verdicts"]
    head += ["tokens read", "written", "scoring", *(["cost of 1,000"] if priced else [])]
    tests = ["best", "against", "difference", "U", "p", "p, Holm", "Cliff's delta", "p, paired, Holm"]
    rows, compared = [head], [tests]
    for row in document["variants"]:
        mean, low, high, deviation = (f"{row[key]:.2f}" for key in ("mean", "low", "high", "sd"))
        cells = [row["variant"], f"{row['items']:,}", mean, f"{low} to {high}", deviation]
        cells += [str(row["unreadable_pairs"]), str(row["unreadable_verdicts"])]
        cells += [f"{row[key]:,.0f}" for key in ("prompt_tokens", "completion_tokens", "scoring_tokens")]
        rows.append(cells + ([f"{row['cost_of_1000']:.4g}"] if priced else []))
    for row in document["comparisons"]:
        paired = row["p_paired_holm"]
        cells = [row["best"], row["other"], f"{row['difference']:.2f}", f"{row['u']:,.1f}", f"{row['p']:.4g}"]
        cells += [f"{row['p_holm']:.4g}", f"{row['delta']:.2f}", "-" if paired is None else f"{paired:.4g}"]
        compared.append(cells)
    lines = [
        f"{document['anchors']:,} anchors, {len(document['variants'])} variants, {pairing}; "
        f"score 0 to {len(document['criteria'])}"
    ]
    for table in (rows, compared):
        table.insert(1, ["---"] * len(table[0]))
        lines += ["", *("| " + " | ".join(cells) + " |" for cells in table)]
    if failed := sum(row["failed"] for row in document["variants"]):
        remark = "items got no answer from their engine and count as 0: that says nothing of a variant."
        lines += ["", f"{failed:,} {remark}"]
    return "\n".join([*lines, "", document["recommendation"]])
