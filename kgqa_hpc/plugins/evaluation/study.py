"""The result of a study: each variant's scores on the same anchors, compared (BioGraphletQA, sections 3.2.1, 4.1).

The score of an item is the sum of its scoring steps. As published, a pair that could not be read scores 0, and so
does a criterion whose verdict could not be read. Scores come from the run's results, not from its dataset:
every anchor counts with every variant.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from kgqa_hpc.config import RunConfig
from kgqa_hpc.config.variants import changes, share_anchors
from kgqa_hpc.dataset.read import open_work
from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.bootstrap import Floats
from kgqa_hpc.plugins.evaluation.compare import compare, recommendation, summarise
from kgqa_hpc.steps.variants import MARK
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.results import iter_result
from kgqa_hpc.store.run_folder import RunFolder

Price = tuple[float, float]  # per million prompt tokens and completion tokens


@dataclass(slots=True)
class Variant:
    """Result of one variant: the score of each anchor by its id, and the tokens used.

    `prompt_tokens` and `completion_tokens` count all steps except the scoring ones: the cost of a dataset.
    `scoring_tokens` counts the scoring steps: the additional cost of the study.
    """

    scores: dict[str, float] = field(default_factory=dict)
    lost: int = 0
    unreadable: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    scoring_tokens: int = 0
    criteria: dict[str, list[float]] = field(default_factory=dict)


def score_arrays(variants: Mapping[str, Variant]) -> dict[str, Floats]:
    """The scores of each variant in the order of anchor ids, so that shared anchors have the same row."""
    return {
        name: np.array([variant.scores[a] for a in sorted(variant.scores)])
        for name, variant in variants.items()
    }


def read_study(run: RunFolder, config: RunConfig) -> dict[str, Variant]:
    """Variants in their order with the scores of their anchors.

    Raises InputError where the configuration has no variants or no scoring step, or not every anchor was
    answered with every variant.
    """
    labels = [step.label for step in config.steps if step.use == "score"]
    if config.variants is None or not labels:
        missing = "variants" if config.variants is None else "steps that score"
        raise InputError(f"{run.path}: has no {missing}, so it is no study", "kgqa init --example study FILE")
    variants = {name: Variant() for name in changes(config.variants)}
    work = open_work(run)
    if len(work.done) < len(work.manifest.names):
        raise InputError(
            f"{run.path}: not every variant has answered every anchor", f"first: kgqa run {run.path}"
        )
    for shard in sorted(work.done):
        for record in iter_result(run.result(config.passes[-1].name, shard)):
            anchor, _, name = record["id"].rpartition(MARK)
            variant, features = variants[name], record.get("features") or {}
            values = {label: float(features.get(label, 0.0)) for label in labels}
            variant.scores[anchor] = sum(values.values())
            variant.lost += record["status"] == "invalid"
            variant.failed += record["status"] == "failed"
            variant.unreadable += len((record.get("annotations") or {}).get("unreadable", ()))
            for entry in record["trace"]:
                read, written = entry["tokens"]["prompt"], entry["tokens"]["completion"]
                if entry["step"] in labels:
                    variant.scoring_tokens += read + written
                else:
                    variant.prompt_tokens += read
                    variant.completion_tokens += written
            for label, value in values.items():
                variant.criteria.setdefault(label, []).append(value)
    return variants


def _row(name: str, variant: Variant, scores: Floats, price: Price | None, seed: int) -> dict[str, Any]:
    items = len(scores)
    read, written = variant.prompt_tokens / items, variant.completion_tokens / items
    return {
        "variant": name,
        **summarise(name, scores, seed=seed),
        "unreadable_pairs": variant.lost,
        "unreadable_verdicts": variant.unreadable,
        "failed": variant.failed,
        "prompt_tokens": read,
        "completion_tokens": written,
        "scoring_tokens": variant.scoring_tokens / items,
        "cost_of_1000": None if price is None else (read * price[0] + written * price[1]) / 1000,
        "criteria": {label: float(np.mean(values)) for label, values in variant.criteria.items()},
    }


def write_study(
    run: RunFolder, config: RunConfig, *, price: Price | None = None, seed: int = 0
) -> dict[str, Any]:
    """Compute the study and write RUN/study: study.json, study.md and, with matplotlib, the two figures.

    `price` is per million prompt tokens and completion tokens, in any currency.
    Raises InputError, DiskFull, StoreError.
    """
    from importlib.util import find_spec

    variants = read_study(run, config)
    labels = [step.label for step in config.steps if step.use == "score"]
    scores = score_arrays(variants)
    paired = share_anchors(config.variants or {})
    comparisons = compare(scores, paired=paired)
    document = {
        "anchors": max(map(len, scores.values())),
        "paired": paired,
        "criteria": labels,
        "variants": [_row(name, variant, scores[name], price, seed) for name, variant in variants.items()],
        "comparisons": [asdict(comparison) for comparison in comparisons],
        "recommendation": recommendation(comparisons),
    }
    folder = run.path / "study"
    make_folder(folder)
    write_file(folder / "study.json", json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n")
    write_file(folder / "study.md", render(document).encode() + b"\n")
    if find_spec("matplotlib"):
        from kgqa_hpc.plugins.evaluation.figures import study_figures

        study_figures(scores, comparisons, folder, criteria=len(labels))
    return document


def render(document: dict[str, Any]) -> str:
    """The study as Markdown."""
    priced = any(row["cost_of_1000"] is not None for row in document["variants"])
    pairing = "the same anchors" if document["paired"] else "each its own anchors, so nothing is paired"
    head = ["variant", "n", "mean", "95 % interval", "SD", "unreadable pairs", "verdicts"]
    head += ["tokens read", "written", "scoring", *(["cost of 1,000"] if priced else [])]
    tests = ["best", "against", "difference", "U", "p", "p, Holm", "Cliff's delta", "p, paired, Holm"]
    rows, compared = [head], [tests]
    for row in document["variants"]:
        cells = [
            row["variant"],
            f"{row['items']:,}",
            *(f"{row[key]:.2f}" for key in ("mean", "low", "high", "sd")),
        ]
        cells[3:5] = [" to ".join(cells[3:5])]
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
        f"score 0 to {len(document['criteria'])}",
    ]
    for table in (rows, compared):
        table.insert(1, ["---"] * len(table[0]))
        lines += ["", *("| " + " | ".join(cells) + " |" for cells in table)]
    if failed := sum(row["failed"] for row in document["variants"]):
        remark = "items got no answer from their engine and count as 0: that says nothing of a variant."
        lines += ["", f"{failed:,} {remark}"]
    return "\n".join([*lines, "", document["recommendation"]])
