"""A picture of the 29 shapes with how many there are and how many were drawn (after the paper's Figure 5).

Needs matplotlib (the extra `report`), which is imported here and nowhere else in this folder.
"""

from __future__ import annotations

import io
import itertools

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from kgqa_hpc.graphlets.sample import GraphletSample
from kgqa_hpc.graphlets.shapes import SHAPES, Shape

COLUMNS = 6
_INK, _NODE, _EMPTY = "#22303c", "#2a7f9e", "#c9d1d6"


def shapes_png(sample: GraphletSample) -> bytes:
    """The picture as PNG; the same sample gives the same bytes (for one version of matplotlib)."""
    rows = -(-len(SHAPES) // COLUMNS)
    figure = Figure(figsize=(2.0 * COLUMNS, 2.3 * rows), layout=ConstrainedLayoutEngine(hspace=0.08))
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, COLUMNS).ravel()
    sampled = sample.sampled()
    for place, shape in zip(axes, SHAPES.values(), strict=False):
        total, error = sample.totals[shape.id], sample.errors[shape.id]
        _draw(place, shape, _NODE if total else _EMPTY)
        place.set_title(f"{shape.id}  {shape.name}", fontsize=9, color=_INK)
        place.text(
            0.5, -0.02, _caption(total, error, sampled[shape.id]), transform=place.transAxes, **_CAPTION
        )
    for place in axes:
        place.set_axis_off()
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110, metadata={"Software": None})
    return out.getvalue()


_CAPTION = {"ha": "center", "va": "top", "fontsize": 8, "color": _INK}


def _caption(total: int, error: float, sampled: int) -> str:
    number = f"{total:,}" if total < 10**12 else f"{total:.3g}"
    return f"{f'{number} ± {error:.1g}' if error else number}\n{sampled:,} drawn"


def _draw(place: Axes, shape: Shape, colour: str) -> None:
    at = _layout(shape)
    for a, b in shape.edges:
        place.plot(at[[a, b], 0], at[[a, b], 1], color=colour, linewidth=1.6, zorder=1)
    place.scatter(at[:, 0], at[:, 1], s=70, color=colour, edgecolors="white", linewidths=1.0, zorder=2)
    place.set_xlim(-1.25, 1.25)
    place.set_ylim(-1.25, 1.25)
    place.set_aspect("equal")


def _layout(shape: Shape) -> np.ndarray:
    """Positions (k, 2) with few crossing edges and distances near to those in the shape.

    Stress majorisation (Gansner, Koren, North 2004) from every order of the nodes around a circle.
    """
    distance = np.where(np.eye(shape.k, dtype=bool), 0.0, np.inf)
    for a, b in shape.edges:
        distance[a, b] = distance[b, a] = 1.0
    for via in range(shape.k):
        distance = np.minimum(distance, distance[:, [via]] + distance[[via], :])
    orders = [order for order in itertools.permutations(range(1, shape.k)) if order[0] < order[-1]]
    layouts = [_relaxed(distance, (0, *order)) for order in orders]
    at = min(layouts, key=lambda at: (_crossings(at, shape), round(_stress(at, distance), 3)))
    at = at - at.mean(axis=0)
    return at / np.abs(at).max()


def _relaxed(distance: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    k = len(order)
    angle = 2 * np.pi * np.argsort(order) / k + 0.3
    # slightly bent, so that no symmetry keeps nodes on a line
    at = np.column_stack([np.cos(angle), np.sin(angle) * (1 + 0.05 * np.arange(k))])
    for _ in range(80):
        apart = np.linalg.norm(at[:, None] - at[None], axis=2) + np.eye(k)
        pull = -distance / apart
        np.fill_diagonal(pull, -pull.sum(axis=1))
        at = pull @ at / k
    return at


def _stress(at: np.ndarray, distance: np.ndarray) -> float:
    return float(((np.linalg.norm(at[:, None] - at[None], axis=2) - distance) ** 2).sum())


def _crossings(at: np.ndarray, shape: Shape) -> int:
    def side(p: int, q: int, r: int) -> bool:
        (px, py), (qx, qy), (rx, ry) = at[p], at[q], at[r]
        return bool((qx - px) * (ry - py) > (qy - py) * (rx - px))

    return sum(
        side(a, b, c) != side(a, b, d) and side(c, d, a) != side(c, d, b)
        for (a, b), (c, d) in itertools.combinations(shape.edges, 2)
        if not {a, b} & {c, d}
    )
