"""A picture of the 29 shapes with how many there are and how many were drawn (after the paper's Figure 5).

Needs matplotlib (the extra `report`), which is imported here and nowhere else in this folder.
"""

from __future__ import annotations

import io

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from kgqa_hpc.drawing.graph_layout import few_nodes
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
    at = few_nodes(shape.edges)
    for a, b in shape.edges:
        place.plot(at[[a, b], 0], at[[a, b], 1], color=colour, linewidth=1.6, zorder=1)
    place.scatter(at[:, 0], at[:, 1], s=70, color=colour, edgecolors="white", linewidths=1.0, zorder=2)
    place.set_xlim(-1.25, 1.25)
    place.set_ylim(-1.25, 1.25)
    place.set_aspect("equal")
