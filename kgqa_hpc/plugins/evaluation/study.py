"""Studies: variants of a prompt, model or setting on the same anchors, compared (BioGraphletQA, 3.2.1, 4.1).

The score of an item is the sum of its scoring steps. As published, a pair that could not be read scores 0, and so
does a criterion whose verdict could not be read. Scores come from the run's results, not from its dataset:
every anchor counts with every variant.

Is the best variant better than the others, or is the difference noise? As published, the variant with the best mean is
compared with each other one by Mann-Whitney's test, two-sided; beside it stand Holm's correction, Cliff's delta and,
where all variants answered the same anchors, Wilcoxon's signed rank test on the pairs. The figures are histograms of
each variant's scores and a box plot, after BioGraphletQA's Figure 6.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from math import floor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from kgqa_hpc.config import RunConfig, load_config
from kgqa_hpc.config.variants import changes, share_anchors
from kgqa_hpc.dataset.read import open_work
from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.agreement import Floats, estimate, mean_of, rank_test
from kgqa_hpc.plugins.evaluation.analysis import ACCEPTED, MEDIAN_AND_MEAN, NEUTRAL, SMALL, svg_figure
from kgqa_hpc.stages import STAGES, init
from kgqa_hpc.steps.variants import MARK
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import iter_result
from kgqa_hpc.text.plain_text import shell_word

ALPHA = 0.05
SHOWN = 2  # comparisons drawn above the boxes: the second and the third best, as published
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
Price = tuple[float, float]  # per million prompt tokens and completion tokens, in any currency


def study(
    config_file: Path, folder: Path, *, threads: int | None = None, price: Price | None = None
) -> dict[str, Any]:
    """Run a study from its configuration, or resume it; returns its result.

    Writes RUN/study: study.json, study.md and, with matplotlib, the two figures. Raises InputError for a configuration
    without variants or scoring steps, DiskFull, StoreError.
    """
    config = load_config(config_file)
    labels, cure = score_labels(config), "kgqa init --example study FILE shows some"
    if config.variants is None:
        raise InputError(f"{config_file}: has no variants to compare", cure)
    if not labels:
        raise InputError(f"{config_file}: has no steps that score, so it is no study", cure)
    run = init(config_file, folder)
    for stage in STAGES:
        if stage.name != "report":
            stage.work(folder, threads)
    rows = read_study(run, config)
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
        study_figures(scores, comparisons, results, criteria=len(labels))
    return document


def read_study(run: RunFolder, config: RunConfig) -> pd.DataFrame:
    """A row for each anchor under each variant, ordered by anchor id, so that shared anchors have the same row.

    `score` and `criterion LABEL`: the sum and the scores by step; `read` and `written`: the tokens of all steps except
    the scoring ones, the cost of a dataset; `scoring`: the tokens of the scoring steps, the added cost of the study.
    Raises InputError where not every anchor was answered with every variant.
    """
    labels = score_labels(config)
    work = open_work(run)
    if len(work.done) < len(work.manifest.names):
        problem = f"{run.path}: not every variant has answered every anchor"
        raise InputError(problem, f"first: kgqa run {shell_word(run.path)}")
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
        "rejected": record["status"] == "rejected",
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
        **summarise(rows["score"], seed=seed),
        "unreadable_pairs": int(rows["lost"].sum()),
        "unreadable_verdicts": int(rows["unreadable"].sum()),
        "failed": int(rows["failed"].sum()),
        "rejected": int(rows["rejected"].sum()),
        "prompt_tokens": read,
        "completion_tokens": written,
        "scoring_tokens": scoring,
        "cost_of_1000": None if price is None else (read * price[0] + written * price[1]) / 1000,
        "criteria": {label: float(rows[f"criterion {label}"].mean()) for label in labels},
    }


def summarise(scores: ArrayLike, *, seed: int = 0) -> dict[str, Any]:
    """Statistics of one variant's scores (n,): number, mean with interval, population sd, count of each value."""
    values = np.asarray(scores, dtype=np.float64)
    levels, counts = np.unique(values, return_counts=True)
    mean = estimate(mean_of(values), len(values), seed=seed)
    return {
        "items": len(values),
        "mean": mean["value"],
        "low": mean["low"],
        "high": mean["high"],
        "sd": float(values.std()),
        "histogram": {f"{level:g}": int(n) for level, n in zip(levels, counts, strict=True)},
    }


class Comparison(NamedTuple):
    """The best variant against another: unpaired and, for the same anchors, paired.

    `u` is the best one's Mann-Whitney U, `delta` Cliff's delta in [-1, 1]; `p_holm` and `p_paired_holm` are
    corrected over all comparisons. Paired values are None where the anchors are not the same.
    """

    best: str
    other: str
    u: float
    p: float
    p_holm: float
    delta: float
    difference: float
    p_paired: float | None = None
    p_paired_holm: float | None = None


def wilcoxon_signed_rank(first: ArrayLike, second: ArrayLike) -> float:
    """Two-sided p of the paired differences; ties are kept by Pratt's rule. 1.0 when all pairs are equal."""
    from scipy.stats import wilcoxon

    if np.array_equal(first, second):
        return 1.0
    test = wilcoxon(first, second, zero_method="pratt", alternative="two-sided", method="asymptotic")
    return float(test.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's (1979) step-down correction, in the order given."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(np.minimum(p[order] * np.arange(len(p), 0, -1), 1.0))
    return corrected.tolist()


def compare(scores: Mapping[str, ArrayLike], *, paired: bool) -> list[Comparison]:
    """Compare the variant with the highest mean with each other variant, in descending order of their means.

    `scores` maps two variants or more to their scores; with `paired` row i of all is the same anchor. The first of
    equal means is the best.
    """
    values = {name: np.asarray(numbers, dtype=np.float64) for name, numbers in scores.items()}
    best, *rivals = sorted(values, key=lambda name: -values[name].mean())
    top, samples = values[best], [values[rival] for rival in rivals]
    tests = [rank_test(top, sample) for sample in samples]
    corrected = holm([p for _, p, _ in tests])
    pairs: list[tuple[float | None, float | None]] = [(None, None)] * len(rivals)
    if paired:
        p_paired = [wilcoxon_signed_rank(top, sample) for sample in samples]
        pairs = list(zip(p_paired, holm(p_paired), strict=True))
    columns = zip(rivals, samples, tests, corrected, pairs, strict=True)
    return [
        Comparison(best, rival, u, p, p_holm, delta, float(top.mean() - sample.mean()), *pair)
        for rival, sample, (u, p, delta), p_holm, pair in columns
    ]


def recommendation(comparisons: Sequence[Comparison]) -> str:
    """One sentence: the recommended variant, and the variants that do not differ significantly from it.

    Paired tests are used if there are any, because they have more power; p is Holm-corrected.
    """
    nearest, best = comparisons[0], comparisons[0].best
    p_values = [c.p_holm if c.p_paired_holm is None else c.p_paired_holm for c in comparisons]
    noise = [(c, p) for c, p in zip(comparisons, p_values, strict=True) if p >= ALPHA]
    if not noise:
        return (
            f"Take {best}: it is better than every other variant; nearest is {nearest.other}, lower by "
            f"{nearest.difference:.3g} on average (p = {p_values[0]:.2g} after Holm, "
            f"Cliff's delta {nearest.delta:.2f})."
        )
    names, lowest = ", ".join(c.other for c, _ in noise), min(p for _, p in noise)
    remark = "no variant is told from it" if len(noise) == len(comparisons) else "the others are lower"
    return (
        f"{best} has the highest mean, but its difference from {names} is noise at this number of anchors "
        f"(up to {max(c.difference for c, _ in noise):.2g}; p >= {floor(lowest * 100) / 100:g} after Holm): take "
        f"whichever of them costs least, or compare them on more anchors; {remark}."
    )


def render(document: dict[str, Any]) -> str:
    """The study as Markdown."""
    priced = any(row["cost_of_1000"] is not None for row in document["variants"])
    pairing = "the same anchors" if document["paired"] else "each its own anchors, so nothing is paired"
    head = ["variant", "n", "mean", "95 % interval", "SD", "unreadable pairs", "verdicts"]
    head += ["tokens read", "written", "scoring", *(["cost of 1,000"] if priced else [])]
    tests = ["best", "against", "difference", "U", "p", "p, Holm", "Cliff's delta", "p, paired, Holm"]
    rows, compared = [head], [tests]
    for row in document["variants"]:
        interval = "-" if row["low"] is None else f"{row['low']:.2f} to {row['high']:.2f}"
        cells = [row["variant"], f"{row['items']:,}", f"{row['mean']:.2f}", interval, f"{row['sd']:.2f}"]
        cells += [str(row["unreadable_pairs"]), str(row["unreadable_verdicts"])]
        cells += [f"{row[key]:,.0f}" for key in ("prompt_tokens", "completion_tokens", "scoring_tokens")]
        rows.append(cells + ([f"{row['cost_of_1000']:.4g}"] if priced else []))
    for row in document["comparisons"]:
        paired = row["p_paired_holm"]
        cells = [row["best"], row["other"], f"{row['difference']:.2f}", f"{row['u']:,.1f}", f"{row['p']:.4g}"]
        cells += [f"{row['p_holm']:.4g}", f"{row['delta']:.2f}", "-" if paired is None else f"{paired:.4g}"]
        compared.append(cells)
    size = f"{document['anchors']:,} anchors, {len(document['variants'])} variants"
    lines = [f"{size}, {pairing}; score 0 to {len(document['criteria'])}"]
    for table in (rows, compared):
        table.insert(1, ["---"] * len(table[0]))
        lines += ["", *("| " + " | ".join(cells) + " |" for cells in table)]
    if failed := sum(row["failed"] for row in document["variants"]):
        remark = "items got no answer from their engine and count as 0: that says nothing of a variant."
        lines += ["", f"{failed:,} {remark}"]
    if rejected := [
        f"{row['variant']} {row['rejected']:,}" for row in document["variants"] if row["rejected"]
    ]:
        remark = "Items that were declined or rejected, whose missing scores count as 0"
        lines += ["", f"{remark}: {', '.join(rejected)}."]
    return "\n".join([*lines, "", document["recommendation"]])


def study_figures(
    scores: Mapping[str, Floats], comparisons: Sequence[Comparison], folder: Path, *, criteria: int = 0
) -> list[Path]:
    """Write boxplot.svg and histograms.svg into `folder`; returns their paths. `scores` maps variant to (n,).

    `criteria`: number of criteria (0 or 1 each) of which a score is the sum. Such scores are drawn on their whole
    scale, so that a small difference does not look large; other scores over their own range.
    """
    make_folder(folder)
    levels, whole = np.unique(np.concatenate([*scores.values()])), np.arange(criteria + 1.0)
    levels = whole if np.isin(levels, whole).all() else levels
    paths = [folder / "boxplot.svg", folder / "histograms.svg"]
    with svg_figure(paths[0], width=max(5.0, 1.5 + 0.6 * len(scores)), height=4) as figure:
        _score_boxes(figure.subplots(), scores, comparisons, levels)
    columns = min(5, len(scores))
    rows = -(-len(scores) // columns)
    with svg_figure(paths[1], width=2.1 * columns + 0.6, height=0.6 + 1.6 * rows) as figure:
        panels: Any = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes, (name, values) in zip(panels.flat, scores.items(), strict=False):
            counts = [(values == level).sum() for level in levels]
            axes.bar(range(len(levels)), counts, color=NEUTRAL, alpha=0.7)
            axes.set_title(f"{name} (mean {values.mean():.2f})", fontsize=8)
            axes.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
        for axes in panels.flat[len(scores) :]:
            axes.set_axis_off()
        figure.supxlabel("score", fontsize=9)
        figure.supylabel("items", fontsize=9)
    return paths


def _score_boxes(
    axes: Any, scores: Mapping[str, Floats], comparisons: Sequence[Comparison], levels: Floats
) -> None:
    """A box for each variant, the best in another colour, and the nearest comparisons with their p above."""
    names = list(scores)
    look: Any = {"tick_labels": names, "widths": 0.6, "patch_artist": True, **MEDIAN_AND_MEAN}
    drawn = axes.boxplot(list(scores.values()), **look)
    best = comparisons[0].best if comparisons else None
    for name, box in zip(names, drawn["boxes"], strict=True):
        box.set(facecolor=ACCEPTED if name == best else NEUTRAL, alpha=0.55)
    low, top = float(levels[0]), float(levels[-1])
    step = 0.09 * max(top - low, 1.0)
    for rank, comparison in enumerate(comparisons[:SHOWN]):
        height = top + (rank + 1) * step
        ends = [names.index(comparison.best) + 1, names.index(comparison.other) + 1]
        axes.plot(ends, [height, height], color="black", linewidth=0.8)
        stars = next((mark for limit, mark in STARS if comparison.p_holm < limit), "ns")
        text = f"{stars} (p = {comparison.p_holm:.2g} after Holm)"
        axes.annotate(text, (sum(ends) / 2, height), (0, 1), ha="center", **SMALL)
    axes.set_ylim(low - step / 2, top + (min(len(comparisons), SHOWN) + 1) * step)
    axes.set_yticks([tick for tick in axes.get_yticks() if low <= tick <= top])
    axes.set(xlabel="variant", ylabel="score (diamond: mean)")
