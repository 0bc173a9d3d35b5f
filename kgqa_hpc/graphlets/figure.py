"""A figure of the 29 shapes with their totals and sample sizes (after the paper's Figure 5).

Needs matplotlib (the extra `report`), which this folder imports only here.
"""

import functools
import io

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from kgqa_hpc.drawing import few_nodes
from kgqa_hpc.graphlets.sample import GraphletSample
from kgqa_hpc.graphlets.shapes import SHAPES

COLUMNS = 6  # shapes in a row
WIDTH, HEIGHT, RADIUS = 2.0, 2.3, 0.68  # of a cell and of the shape in it, in inches
_INK, _NODE, _EMPTY = "#22303c", "#2a7f9e", "#c9d1d6"


def shapes_png(sample: GraphletSample) -> bytes:
    """The picture as PNG; the same sample gives the same bytes (for one version of matplotlib)."""
    rows = -(-len(SHAPES) // COLUMNS)
    figure = Figure(figsize=(WIDTH * COLUMNS, HEIGHT * rows))
    FigureCanvasAgg(figure)
    # One axes object for all shapes: 29 separate axes take five times as long.
    plane = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH * COLUMNS), ylim=(HEIGHT * rows, 0))
    plane.set_axis_off()
    sampled = sample.sampled()
    for number, shape in enumerate(SHAPES.values()):
        row, column = divmod(number, COLUMNS)
        x, y = (column + 0.5) * WIDTH, row * HEIGHT
        total, error = sample.totals[shape.id], sample.errors[shape.id]
        at = _places(shape.edges) * (RADIUS, -RADIUS) + (x, y + 1.1)  # y grows downwards on this plane
        colour = _NODE if total else _EMPTY
        lines = list(at[np.array(shape.edges)])
        plane.add_collection(LineCollection(lines, colors=colour, linewidths=1.6, zorder=1))
        plane.scatter(at[:, 0], at[:, 1], s=70, color=colour, edgecolors="white", linewidths=1.0, zorder=2)
        plane.text(x, y + 0.2, f"{shape.id}  {shape.name}", fontsize=9, color=_INK, ha="center")
        amount = f"{total:,}" if total < 10**12 else f"{total:.3g}"
        caption = f"{amount}{f' ± {error:.1g}' if error else ''}\n{sampled[shape.id]:,} drawn"
        plane.text(x, y + 1.92, caption, fontsize=8, color=_INK, ha="center", va="top")
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110, metadata={"Software": None})
    return out.getvalue()


_places = functools.cache(few_nodes)
