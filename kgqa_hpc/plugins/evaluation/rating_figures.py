"""The figures of a human evaluation: box plot, violins, and minimum and average with reverse cumulation.

After BioGraphletQA's Figures 8 and 12; accepted against rejected where the ratings tell.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa_hpc.plugins.evaluation.analysis import LEVELS, Groups, answer_triples, rating_groups
from kgqa_hpc.plugins.evaluation.figure import BLACK, COLOURS, DIAMOND, TEXT_COLOURS, save_figure
from kgqa_hpc.plugins.evaluation.ratings import Ratings
from kgqa_hpc.store.atomic import make_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def rating_figures(ratings: Ratings, folder: Path) -> list[Path]:
    """Write boxplot.svg, violins.svg and answer_scores.svg into `folder`; returns their paths.

    Raises InputError when matplotlib is missing, DiskFull or StoreError.
    """
    make_folder(folder)
    groups = rating_groups(ratings)
    sides = {name: one for name, one in groups.items() if len(one) and (len(groups) == 1 or name != "all")}
    criteria = ratings.criteria
    width = 1.2 + 1.5 * len(criteria)
    return [
        save_figure(folder / "boxplot.svg", lambda f: _boxes(f, sides, criteria), width=width),
        save_figure(folder / "violins.svg", lambda f: _violins(f, sides, criteria), width=width),
        save_figure(folder / "answer_scores.svg", lambda f: _answer(f, sides), width=8.4),
    ]


def _boxes(figure: Figure, groups: Groups, criteria: Sequence[str]) -> None:
    axes = figure.subplots()
    for position, name, colour, values in _placed(groups, criteria):
        axes.boxplot(
            values,
            positions=[position],
            widths=0.8 / len(groups) * 0.85,
            showmeans=True,
            patch_artist=True,
            boxprops={"facecolor": colour, "alpha": 0.55},
            medianprops=BLACK,
            meanprops=DIAMOND,
            label=name,
        )
    _finish(axes, groups, criteria)


def _violins(figure: Figure, groups: Groups, criteria: Sequence[str]) -> None:
    axes = figure.subplots()
    for position, _, colour, values in _placed(groups, criteria):
        width = 0.8 / len(groups) * 0.95
        if len(np.unique(values)) > 1:  # a density needs two different values
            parts: Any = axes.violinplot(values, positions=[position], widths=width, showextrema=False)
            for body in parts["bodies"]:
                body.set(facecolor=colour, alpha=0.55)
        axes.plot([position], [values.mean()], marker="D", color="black", markersize=4)
        axes.hlines(np.median(values), position - width / 4, position + width / 4, color="black", linewidth=1)
    _finish(axes, groups, criteria)


def _placed(groups: Groups, criteria: Sequence[str]) -> list[tuple[float, str, str, np.ndarray]]:
    """Where each criterion's values of each group stand; groups side by side."""
    found = []
    for i, criterion in enumerate(criteria):
        for j, (name, scores) in enumerate(groups.items()):
            values = scores[criterion].dropna().to_numpy()
            if len(values):
                place = i + (j - (len(groups) - 1) / 2) * 0.8 / len(groups)
                found.append((place, name, COLOURS[name], values))
    return found


def _finish(axes: Axes, groups: Groups, criteria: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    axes.set_xticks(range(len(criteria)), [textwrap.fill(name, 18) for name in criteria])
    axes.set_xlim(-0.6, len(criteria) - 0.4)
    axes.set_ylim(0.7, 5.3)
    axes.set_yticks(LEVELS)
    axes.set_ylabel("score")
    axes.axhline(3, color="#999", linewidth=0.8, linestyle=":")
    if len(groups) > 1:
        handles = [
            Patch(facecolor=COLOURS[name], alpha=0.55, label=f"{name} (n = {len(scores)})")
            for name, scores in groups.items()
        ]
        axes.legend(handles=handles, frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _answer(figure: Figure, groups: Groups) -> None:
    """Minimum and rounded average of the answer's three scores: bars, and the share with at least so much."""
    panels: Any = figure.subplots(1, 2, sharey=True)
    found = {name: answer_triples(scores) for name, scores in groups.items()}
    triples = {name: three for name, three in found.items() if len(three)}
    kinds = {
        "minimum": {name: three.min(axis=1) for name, three in triples.items()},
        "rounded average": {name: np.rint(three.mean(axis=1)) for name, three in triples.items()},
    }
    for axes, (title, each) in zip(panels, kinds.items(), strict=True):
        for j, (name, scores) in enumerate(each.items()):
            width = 0.8 / len(groups)
            places = np.array(LEVELS) + (j - (len(groups) - 1) / 2) * width
            shares = [100 * float((scores == k).mean()) for k in LEVELS]
            label = f"{name} (n = {len(groups[name])})"
            axes.bar(places, shares, width=width, color=COLOURS[name], alpha=0.55, label=label)
            cumulated = [100 * float((scores >= k).mean()) for k in LEVELS]
            axes.plot(LEVELS, cumulated, color=COLOURS[name], marker="o", markersize=4)
            _shares(axes, cumulated, TEXT_COLOURS[name], right=j == 0)
        axes.set_title(f"{title} of the three answer scores", fontsize=9, pad=18)
        axes.set_xlabel("score (line: share with at least this score)")
        axes.set_ylim(0, 118)
        axes.set_yticks(range(0, 101, 20))
    panels[0].set_ylabel("% of ratings")
    if len(groups) > 1:
        figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
        )


def _shares(axes: Axes, shares: list[float], colour: str, *, right: bool) -> None:
    """Write each share beside its point: one group's above on the right, the other's below on the left."""
    offset = (4, 3) if right else (-4, -9)
    look: Any = {"textcoords": "offset points", "ha": "left" if right else "right", "fontsize": 7}
    for level, share in zip(LEVELS, shares, strict=True):
        axes.annotate(f"{share:.1f}", (level, share), offset, color=colour, **look)
