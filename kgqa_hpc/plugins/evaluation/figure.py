"""One way to draw: an SVG file by matplotlib, the same data giving the same bytes, text kept as text.

Needs matplotlib (the extra `report`).
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgqa_hpc.errors import InputError
from kgqa_hpc.store.atomic import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACCEPTED, REJECTED, NEUTRAL = "#2a7f62", "#d9a441", "#4a6fa5"
COLOURS = {"all": NEUTRAL, "accepted": ACCEPTED, "rejected": REJECTED}
TEXT_COLOURS = {"all": "#2f4a73", "accepted": "#1d5c47", "rejected": "#7a5510"}  # dark enough to read
# The median and the mean of a box plot.
BLACK: Any = {"color": "black"}
DIAMOND: Any = {"marker": "D", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": 4}
_STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "kgqa", "font.size": 9, "text.parse_math": False}


def require_matplotlib() -> None:
    """Raises InputError with the line that installs it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(
            "figures need matplotlib, which is not installed", "pip install 'kgqa_hpc[report]'"
        ) from None


def save_figure(path: Path, draw: Callable[[Figure], None], *, width: float, height: float = 3.4) -> Path:
    """Let `draw` fill a figure of width x height inches and write it as SVG; returns the path."""
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        for axes in figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    write_file(path, out.getvalue())
    return path
