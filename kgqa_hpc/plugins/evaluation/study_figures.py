"""The figures of a study: scores of each variant as a box plot and as histograms.

The box plot is after BioGraphletQA's Figure 6: the best variant and its comparison with the next ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa_hpc.plugins.evaluation.bootstrap import Floats
from kgqa_hpc.plugins.evaluation.compare import Comparison
from kgqa_hpc.plugins.evaluation.figure import ACCEPTED, BLACK, DIAMOND, NEUTRAL, save_figure
from kgqa_hpc.store.atomic import make_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = 2  # comparisons drawn above the boxes: the second and the third best, as published
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))


def study_figures(
    scores: Mapping[str, Floats], comparisons: Sequence[Comparison], folder: Path, *, criteria: int = 0
) -> list[Path]:
    """Write boxplot.svg and histograms.svg into `folder`; returns their paths. `scores` maps variant to (n,).

    Scores that are sums of so many `criteria` of 0 or 1 are shown on the whole scale, that no small difference looks
    large; others over their own range.

    Raises InputError when matplotlib is missing, DiskFull or StoreError.
    """
    make_folder(folder)
    levels = _levels(scores, criteria)
    width = max(5.0, 1.5 + 0.6 * len(scores))
    rows = -(-len(scores) // 5)
    return [
        save_figure(
            folder / "boxplot.svg", lambda f: _boxes(f, scores, comparisons, levels), width=width, height=4
        ),
        save_figure(
            folder / "histograms.svg",
            lambda f: _histograms(f, scores, levels),
            width=2.1 * min(5, len(scores)) + 0.6,
            height=0.6 + 1.6 * rows,
        ),
    ]


def stars(p: float) -> str:
    """`*` to `***` below .05, .01 and .001, else `ns`."""
    return next((mark for limit, mark in STARS if p < limit), "ns")


def _levels(scores: Mapping[str, Floats], criteria: int) -> Floats:
    """The scores on the axes, ascending."""
    seen = np.unique(np.concatenate(list(scores.values())))
    whole = np.arange(criteria + 1, dtype=np.float64)
    return whole if np.isin(seen, whole).all() else seen


def _boxes(
    figure: Figure, scores: Mapping[str, Floats], comparisons: Sequence[Comparison], levels: Floats
) -> None:
    axes = figure.subplots()
    names = list(scores)
    drawn = axes.boxplot(
        [scores[name] for name in names],
        tick_labels=names,
        widths=0.6,
        showmeans=True,
        patch_artist=True,
        medianprops=BLACK,
        meanprops=DIAMOND,
    )
    best = comparisons[0].best if comparisons else None
    for name, box in zip(names, drawn["boxes"], strict=True):
        box.set(facecolor=ACCEPTED if name == best else NEUTRAL, alpha=0.55)
    low, top = float(levels[0]), float(levels[-1])
    step = 0.09 * max(top - low, 1.0)
    for rank, one in enumerate(comparisons[:SHOWN]):
        height = top + (rank + 1) * step
        _bracket(axes, names.index(one.best) + 1, names.index(one.other) + 1, height, one.p_holm)
    axes.set_ylim(low - step / 2, top + (min(len(comparisons), SHOWN) + 1) * step)
    axes.set_yticks([tick for tick in axes.get_yticks() if low <= tick <= top])
    axes.set_ylabel("score (diamond: mean)")
    axes.set_xlabel("variant")


def _bracket(axes: Axes, first: int, second: int, height: float, p: float) -> None:
    axes.plot([first, second], [height, height], color="black", linewidth=0.8)
    look: Any = {"textcoords": "offset points", "ha": "center", "fontsize": 7}
    axes.annotate(f"{stars(p)} (p = {p:.2g})", ((first + second) / 2, height), (0, 1), **look)


def _histograms(figure: Figure, scores: Mapping[str, Floats], levels: Floats) -> None:
    columns = min(5, len(scores))
    rows = -(-len(scores) // columns)
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
