"""The result of a study: each variant's scores on the same anchors, compared (BioGraphletQA, sections 3.2.1, 4.1).

The score of an item is the sum of its scoring steps. As published, a pair that could not be read scores 0, and so
does a criterion whose verdict could not be read. Scores come from the run's results, not from its dataset:
every anchor counts with every variant.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kgqa_hpc.config import RunConfig
from kgqa_hpc.errors import InputError
from kgqa_hpc.evaluate.bootstrap import Floats
from kgqa_hpc.evaluate.compare import compare, recommendation, summarise
from kgqa_hpc.steps.variants import MARK
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.results import iter_result
from kgqa_hpc.store.run_folder import RunFolder


@dataclass(slots=True)
class Variant:
    """What came of one variant: the score of each anchor by its id, and what it took."""

    scores: dict[str, float] = field(default_factory=dict)
    lost: int = 0
    unreadable: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    criteria: dict[str, list[float]] = field(default_factory=dict)


def study(run: RunFolder, config: RunConfig, *, seed: int = 0) -> dict[str, Any]:
    """Table, tests and recommendation as plain data. Raises InputError for a run that is no complete study."""
    variants = read_study(run, config)
    anchors = sorted(next(iter(variants.values())).scores)
    if any(sorted(each.scores) != anchors for each in variants.values()):
        raise InputError(
            f"{run.path}: not every variant has answered every anchor", f"first: kgqa run {run.path}"
        )
    scores = {name: np.array([each.scores[a] for a in anchors]) for name, each in variants.items()}
    comparisons = compare(scores, paired=True)
    return {
        "anchors": len(anchors),
        "criteria": score_labels(config),
        "variants": [_row(name, each, scores[name], seed) for name, each in variants.items()],
        "comparisons": [one.to_dict() for one in comparisons],
        "recommendation": recommendation(comparisons),
    }


def score_labels(config: RunConfig) -> list[str]:
    """The labels of the scoring steps, in their order."""
    return [step.label for step in config.steps if step.use == "score"]


def read_study(run: RunFolder, config: RunConfig) -> dict[str, Variant]:
    """Variants in their order with the scores of their anchors.

    Raises InputError where the configuration has no variants or no scoring step, or nothing was run.
    """
    varied, labels = config.variant_steps(), score_labels(config)
    if varied is None or not labels:
        missing = "variants" if varied is None else "steps that score"
        raise InputError(f"{run.path}: has no {missing}, so it is no study", "kgqa init --example study FILE")
    found = {name: Variant() for name in varied[1]}
    for record in _records(run, config):
        anchor, _, name = record["id"].rpartition(MARK)
        _add(found[name], anchor, record, labels)
    if not all(each.scores for each in found.values()):
        raise InputError(f"{run.path}: not every variant has results", f"first: kgqa run {run.path}")
    return found


def _records(run: RunFolder, config: RunConfig) -> Iterator[dict[str, Any]]:
    for path in sorted(run.results(config.passes[-1].name).glob("shard-*.h5")):
        yield from iter_result(path)


def _add(variant: Variant, anchor: str, record: dict[str, Any], labels: Sequence[str]) -> None:
    features = record.get("features") or {}
    values = {label: float(features.get(label, 0.0)) for label in labels}
    variant.scores[anchor] = sum(values.values())
    variant.lost += record["status"] == "invalid"
    variant.failed += record["status"] == "failed"
    variant.unreadable += len((record.get("annotations") or {}).get("unreadable", ()))
    for entry in record["trace"]:
        variant.prompt_tokens += entry["tokens"]["prompt"]
        variant.completion_tokens += entry["tokens"]["completion"]
    for label, value in values.items():
        variant.criteria.setdefault(label, []).append(value)


def _row(name: str, variant: Variant, scores: Floats, seed: int) -> dict[str, Any]:
    found = summarise(name, scores, seed=seed)
    items = len(scores)
    return {
        "variant": name,
        "mean": found.mean.value,
        "low": found.mean.low,
        "high": found.mean.high,
        "sd": found.sd,
        "histogram": {f"{score:g}": count for score, count in found.histogram.items()},
        "unreadable_pairs": variant.lost,
        "unreadable_verdicts": variant.unreadable,
        "failed": variant.failed,
        "prompt_tokens": variant.prompt_tokens / items,
        "completion_tokens": variant.completion_tokens / items,
        "criteria": {label: float(np.mean(values)) for label, values in variant.criteria.items()},
    }


def write_study(run: RunFolder, config: RunConfig, *, seed: int = 0) -> dict[str, Any]:
    """Compute the study and write RUN/study: study.json, study.md and, where matplotlib is, the two figures.

    Raises InputError, DiskFull, StoreError.
    """
    from importlib.util import find_spec

    document = study(run, config, seed=seed)
    folder = run.path / "study"
    make_folder(folder)
    write_file(folder / "study.json", json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n")
    write_file(folder / "study.md", render(document).encode() + b"\n")
    if find_spec("matplotlib"):
        from kgqa_hpc.evaluate.study_figures import study_figures

        variants = read_study(run, config)
        scores = {name: np.array(list(each.scores.values())) for name, each in variants.items()}
        study_figures(scores, compare(scores, paired=False), folder)
    return document


def render(document: dict[str, Any]) -> str:
    """The study as Markdown."""
    lines = [
        f"{document['anchors']:,} anchors, {len(document['variants'])} variants; "
        f"score 0 to {len(document['criteria'])}",
        "",
        "| variant | mean | 95 % interval | SD | unreadable pairs | verdicts | tokens read | written |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in document["variants"]:
        lines.append(
            f"| {row['variant']} | {row['mean']:.2f} | {row['low']:.2f} to {row['high']:.2f} | {row['sd']:.2f} "
            f"| {row['unreadable_pairs']} | {row['unreadable_verdicts']} | {row['prompt_tokens']:,.0f} "
            f"| {row['completion_tokens']:,.0f} |"
        )
    lines += ["", "| best | against | difference | U | p | p, Holm | Cliff's delta | p, paired, Holm |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for one in document["comparisons"]:
        lines.append(
            f"| {one['best']} | {one['other']} | {one['difference']:.2f} | {one['u']:,.1f} | {one['p']:.4g} "
            f"| {one['p_holm']:.4g} | {one['delta']:.2f} | {one['p_paired_holm']:.4g} |"
        )
    return "\n".join([*lines, "", document["recommendation"]])
