"""Figures of human evaluations and of studies as SVG files by matplotlib (the extra `report`).

The same data give the same bytes, and text stays text. Human evaluations: box plot, violins, and minimum and average
with reverse cumulation, after BioGraphletQA's Figures 8 and 12; accepted against rejected where the ratings tell.
Studies: scores of each variant as histograms and as a box plot, after BioGraphletQA's Figure 6.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.agreement import Floats
from kgqa_hpc.plugins.evaluation.analysis import LEVELS, Groups, answer_triples, rating_groups
from kgqa_hpc.plugins.evaluation.compare import Comparison
from kgqa_hpc.plugins.evaluation.ratings import Ratings
from kgqa_hpc.store.atomic import make_folder, write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACCEPTED, REJECTED, NEUTRAL = "#2a7f62", "#d9a441", "#4a6fa5"
COLOURS = {"all": NEUTRAL, "accepted": ACCEPTED, "rejected": REJECTED}
TEXT_COLOURS = {"all": "#2f4a73", "accepted": "#1d5c47", "rejected": "#7a5510"}  # dark enough to read
_DIAMOND = {"marker": "D", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": 4}
# Median and mean of a box plot.
_POINTS: Any = {"showmeans": True, "medianprops": {"color": "black"}, "meanprops": _DIAMOND}
_SMALL: Any = {"textcoords": "offset points", "fontsize": 7}
_STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "kgqa", "font.size": 9, "text.parse_math": False}
SHOWN = 2  # comparisons drawn above the boxes: the second and the third best, as published
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))


def save_figure(path: Path, draw: Callable[[Figure], None], *, width: float, height: float = 3.4) -> Path:
    """Let `draw` fill a figure of width x height inches and write it as SVG; returns the path.

    Raises InputError when matplotlib is missing, DiskFull or StoreError.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        problem = "figures need matplotlib, which is not installed"
        raise InputError(problem, "pip install 'kgqa_hpc[report]'") from None
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        for axes in figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    write_file(path, out.getvalue())
    return path


def rating_figures(ratings: Ratings, folder: Path) -> list[Path]:
    """Write boxplot.svg, violins.svg and answer_scores.svg into `folder`; returns their paths."""
    make_folder(folder)
    groups = rating_groups(ratings)
    sides = {name: rows for name, rows in groups.items() if len(rows) and (len(groups) == 1 or name != "all")}
    width = 1.2 + 1.5 * len(ratings.criteria)
    paths = [
        save_figure(folder / name, partial(_criteria, sides, ratings.criteria, draw), width=width)
        for name, draw in (("boxplot.svg", _box), ("violins.svg", _violin))
    ]
    return [*paths, save_figure(folder / "answer_scores.svg", partial(_answer, sides), width=8.4)]


def _box(axes: Axes, values: Floats, position: float, width: float, name: str) -> None:
    box: Any = {"boxprops": {"facecolor": COLOURS[name], "alpha": 0.55}, "patch_artist": True}
    axes.boxplot(values, positions=[position], widths=width * 0.85, label=name, **box, **_POINTS)


def _violin(axes: Axes, values: Floats, position: float, width: float, name: str) -> None:
    width *= 0.95
    if len(np.unique(values)) > 1:  # a density needs two different values
        parts: Any = axes.violinplot(values, positions=[position], widths=width, showextrema=False)
        for body in parts["bodies"]:
            body.set(facecolor=COLOURS[name], alpha=0.55)
    axes.plot([position], [values.mean()], marker="D", color="black", markersize=4)
    axes.hlines(np.median(values), position - width / 4, position + width / 4, color="black", linewidth=1)


_Draw = Callable[["Axes", Floats, float, float, str], None]


def _criteria(groups: Groups, criteria: Sequence[str], draw: _Draw, figure: Figure) -> None:
    """One drawing for each criterion and group, groups side by side."""
    from matplotlib.patches import Patch

    axes = figure.subplots()
    width = 0.8 / len(groups)
    for i, criterion in enumerate(criteria):
        for j, (name, scores) in enumerate(groups.items()):
            values = scores[criterion].dropna().to_numpy()
            if len(values):
                draw(axes, values, i + (j - (len(groups) - 1) / 2) * width, width, name)
    axes.set_xticks(range(len(criteria)), [textwrap.fill(name, 18) for name in criteria])
    axes.set(xlim=(-0.6, len(criteria) - 0.4), ylim=(0.7, 5.3), yticks=LEVELS, ylabel="score")
    axes.axhline(3, color="#999", linewidth=0.8, linestyle=":")
    if len(groups) > 1:
        labels = {name: f"{name} (n = {len(scores)})" for name, scores in groups.items()}
        handles = [Patch(facecolor=COLOURS[name], alpha=0.55, label=label) for name, label in labels.items()]
        axes.legend(handles=handles, frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _answer(groups: Groups, figure: Figure) -> None:
    """Minimum and rounded average of the answer's three scores as bars, and the share of pairs at or above a score."""
    panels: Any = figure.subplots(1, 2, sharey=True)
    by_group = {name: answer_triples(scores) for name, scores in groups.items()}
    triples = {name: three for name, three in by_group.items() if len(three)}
    kinds = {
        "minimum": {name: three.min(axis=1) for name, three in triples.items()},
        "rounded average": {name: np.rint(three.mean(axis=1)) for name, three in triples.items()},
    }
    for axes, (title, kind_triples) in zip(panels, kinds.items(), strict=True):
        for j, (name, scores) in enumerate(kind_triples.items()):
            width = 0.8 / len(groups)
            positions = np.array(LEVELS) + (j - (len(groups) - 1) / 2) * width
            shares = [100 * float((scores == k).mean()) for k in LEVELS]
            label = f"{name} (n = {len(groups[name])})"
            axes.bar(positions, shares, width=width, color=COLOURS[name], alpha=0.55, label=label)
            cumulated = [100 * float((scores >= k).mean()) for k in LEVELS]
            axes.plot(LEVELS, cumulated, color=COLOURS[name], marker="o", markersize=4)
            # The shares of the first group are above its points on the right, of the other below on the left.
            offset, side = ((4, 3), "left") if j == 0 else ((-4, -9), "right")
            look: Any = {**_SMALL, "ha": side, "color": TEXT_COLOURS[name]}
            for level, share in zip(LEVELS, cumulated, strict=True):
                axes.annotate(f"{share:.1f}", (level, share), offset, **look)
        axes.set_title(f"{title} of the three answer scores", fontsize=9, pad=18)
        label = "score (line: share with at least this score)"
        axes.set(xlabel=label, ylim=(0, 118), yticks=range(0, 101, 20))
    panels[0].set_ylabel("% of ratings")
    if len(groups) > 1:
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=2, frameon=False)


def study_figures(
    scores: Mapping[str, Floats], comparisons: Sequence[Comparison], folder: Path, *, criteria: int = 0
) -> list[Path]:
    """Write boxplot.svg and histograms.svg into `folder`; returns their paths. `scores` maps variant to (n,).

    Scores that are sums of so many `criteria` of 0 or 1 are shown on the whole scale, that no small difference looks
    large; others over their own range.
    """
    make_folder(folder)
    levels = _levels(scores, criteria)
    width, columns, rows = max(5.0, 1.5 + 0.6 * len(scores)), min(5, len(scores)), -(-len(scores) // 5)
    boxes, histograms = (
        partial(_score_boxes, scores, comparisons, levels),
        partial(_histograms, scores, levels),
    )
    size = {"width": 2.1 * columns + 0.6, "height": 0.6 + 1.6 * rows}
    return [
        save_figure(folder / "boxplot.svg", boxes, width=width, height=4),
        save_figure(folder / "histograms.svg", histograms, **size),
    ]


def stars(p: float) -> str:
    """`*` to `***` below .05, .01 and .001, else `ns`."""
    return next((mark for limit, mark in STARS if p < limit), "ns")


def _levels(scores: Mapping[str, Floats], criteria: int) -> Floats:
    """The scores on the axes, ascending."""
    seen = np.unique(np.concatenate(list(scores.values())))
    whole = np.arange(criteria + 1, dtype=np.float64)
    return whole if np.isin(seen, whole).all() else seen


def _score_boxes(
    scores: Mapping[str, Floats], comparisons: Sequence[Comparison], levels: Floats, figure: Figure
) -> None:
    axes = figure.subplots()
    names = list(scores)
    drawn = axes.boxplot(list(scores.values()), tick_labels=names, widths=0.6, patch_artist=True, **_POINTS)
    best = comparisons[0].best if comparisons else None
    for name, box in zip(names, drawn["boxes"], strict=True):
        box.set(facecolor=ACCEPTED if name == best else NEUTRAL, alpha=0.55)
    low, top = float(levels[0]), float(levels[-1])
    step = 0.09 * max(top - low, 1.0)
    for rank, comparison in enumerate(comparisons[:SHOWN]):
        height = top + (rank + 1) * step
        ends = [names.index(comparison.best) + 1, names.index(comparison.other) + 1]
        axes.plot(ends, [height, height], color="black", linewidth=0.8)
        text = f"{stars(comparison.p_holm)} (p = {comparison.p_holm:.2g})"
        axes.annotate(text, (sum(ends) / 2, height), (0, 1), ha="center", **_SMALL)
    axes.set_ylim(low - step / 2, top + (min(len(comparisons), SHOWN) + 1) * step)
    axes.set_yticks([tick for tick in axes.get_yticks() if low <= tick <= top])
    axes.set(xlabel="variant", ylabel="score (diamond: mean)")


def _histograms(scores: Mapping[str, Floats], levels: Floats, figure: Figure) -> None:
    columns = min(5, len(scores))
    rows = -(-len(scores) // columns)
    panels: Any = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, (name, values) in zip(panels.flat, scores.items(), strict=False):
        axes.bar(range(len(levels)), [(values == level).sum() for level in levels], color=NEUTRAL, alpha=0.7)
        axes.set_title(f"{name} (mean {values.mean():.2f})", fontsize=8)
        axes.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
    for axes in panels.flat[len(scores) :]:
        axes.set_axis_off()
    figure.supxlabel("score", fontsize=9)
    figure.supylabel("items", fontsize=9)
