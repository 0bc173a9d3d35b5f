"""The report's figures as self-contained SVG images; the same findings give the same bytes.

Needs matplotlib (the extra `report`). Figures are in the manner of BioGraphletQA's Figures 5 and 11.
"""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kgqa_hpc.errors import InputError
from kgqa_hpc.report.findings import Findings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ACCEPTED, _REJECTED, _LOST, _WAITING = "#2a7f62", "#d9a441", "#b3473c", "#b8b8b8"
CAP = 2000  # questions per node shown, as in the paper's Figure 11


def require_matplotlib() -> None:
    """Raises InputError with the line that installs it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(
            "the report needs matplotlib, which is not installed", "pip install 'kgqa_hpc[report]'"
        ) from None


def outcomes_per_shape(findings: Findings) -> str:
    """Stacked bars: what became of the graphlets of each shape."""
    shapes = findings.accounting["shapes"]
    parts = {
        "accepted": (_ACCEPTED, [tally["accepted"] for tally in shapes.values()]),
        "rejected": (_REJECTED, [sum(tally["rejected"].values()) for tally in shapes.values()]),
        "invalid or failed": (_LOST, [_lost(tally) for tally in shapes.values()]),
        "waiting": (_WAITING, [tally["waiting"] for tally in shapes.values()]),
    }

    def plot(axes: Axes) -> None:
        positions, base = np.arange(len(shapes)), np.zeros(len(shapes))
        for label, (colour, values) in parts.items():
            if any(values):
                axes.bar(positions, values, bottom=base, color=colour, label=label, width=0.8)
                base += values
        axes.set_xticks(positions, list(shapes))
        axes.set_xlabel("graphlet shape")
        axes.set_ylabel("graphlets")
        axes.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))

    return _image(plot, width=9.0)


def lengths(findings: Findings, field: str) -> str:
    """Histogram of the lengths of questions or answers, with the limits of the length filter."""
    limits = findings.accounting["lengths"].get(field, {})
    kept = [findings.lengths[name][field] for name in ("accepted", "rejected")]

    def plot(axes: Axes) -> None:
        both = np.concatenate(kept)
        if len(both):
            colours, labels = [_ACCEPTED, _REJECTED], ["accepted", "rejected"]
            axes.hist(kept, bins=_whole_bins(both), stacked=True, color=colours, label=labels)
            axes.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        for name in ("minimum", "maximum"):
            if limits.get(name) is not None:
                axes.axvline(limits[name], color="black", linestyle="--", linewidth=1)
        axes.set_xlabel(f"length of the {field} (characters)")
        axes.set_ylabel("pairs")

    return _image(plot, width=4.6)


def node_usage(findings: Findings) -> str:
    """How many nodes are in how many accepted questions (Figure 11), cut at CAP."""
    questions = Counter(min(count, CAP) for count in findings.usage.values())

    def plot(axes: Axes) -> None:
        values, weights = list(questions), list(questions.values())
        if values:
            axes.hist(values, bins=_whole_bins(np.array(values)), weights=weights, color=_ACCEPTED)
            axes.set_yscale("log")
        axes.set_xlabel("accepted questions per node" + (f" (cut at {CAP:,})" if CAP in questions else ""))
        axes.set_ylabel("nodes")

    return _image(plot, width=4.6)


def pace(notes: list[tuple[float, int]]) -> str:
    """Items ended over time; `notes` are (seconds since 1970, items ended)."""

    def plot(axes: Axes) -> None:
        start = notes[0][0]
        axes.plot([(at - start) / 3600 for at, _ in notes], [ended for _, ended in notes], color=_ACCEPTED)
        axes.set_xlabel("hours since the first note")
        axes.set_ylabel("items ended")
        axes.set_ylim(bottom=0)

    return _image(plot, width=4.6)


def _whole_bins(values: np.ndarray) -> list[float]:
    """Edges of at most 60 bins that hold equally many whole numbers each, so that no comb appears."""
    low, high = int(values.min()), int(values.max())
    width = -(-(high - low + 1) // 60)
    return (np.arange(low, high + width + 1, width) - 0.5).tolist()


def _lost(tally: dict[str, Any]) -> int:
    return sum(tally["invalid"].values()) + sum(tally["failed"].values())


def _image(plot: Callable[[Axes], None], width: float) -> str:
    """Draw and return a data URI. No pyplot: no window, no state shared with whoever imports us."""
    import matplotlib
    from matplotlib.figure import Figure

    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "kgqa", "font.size": 9, "font.family": "sans-serif"}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(width, 3.0), layout="constrained")
        axes = figure.subplots()
        axes.spines[["top", "right"]].set_visible(False)
        plot(axes)
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return "data:image/svg+xml;base64," + base64.b64encode(out.getvalue()).decode("ascii")
