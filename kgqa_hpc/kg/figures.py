"""Figures of a graph before and after reduction, as in BioGraphletQA's Figures 3, 9 and 10."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.profile import LONGEST, Profile, Profiles
from kgqa_hpc.store.atomic import make_folder, write_file


def draw_figures(folder: Path, profiles: Profiles) -> list[Path]:
    """Write degrees.png, name_lengths.png and node_types.png; returns their paths.

    Raises InputError when matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("drawing needs matplotlib", "pip install 'kgqa_hpc[report]'") from None
    make_folder(folder)
    paths = []
    for name, draw in (("degrees", _degrees), ("name_lengths", _name_lengths), ("node_types", _node_types)):
        figure = Figure(figsize=(8, 5), layout="constrained")
        draw(figure.subplots(), {label: entry for label, entry in profiles._asdict().items() if entry})
        sink = BytesIO()
        figure.savefig(sink, format="png", dpi=120, metadata={"Software": None})
        paths.append(folder / f"{name}.png")
        write_file(paths[-1], sink.getvalue())
    return paths


def _degrees(axes: Any, profiles: dict[str, Profile]) -> None:
    for label, entry in profiles.items():
        points = np.array([point for point in entry.degrees.items() if point[0]]).reshape(-1, 2)
        axes.plot(points[:, 0], points[:, 1], ".", label=label)
    axes.set(xscale="log", yscale="log", xlabel="degree", ylabel="nodes", title="Degrees of nodes")
    axes.legend()


def _name_lengths(axes: Any, profiles: dict[str, Profile]) -> None:
    there = list(profiles["graph"].names.items())[:12]
    if there:
        low, _, middle, _, high = np.minimum([entry.quantiles for _, entry in there], LONGEST).T
        axes.hlines(range(len(there)), low, high)
        axes.plot(middle, range(len(there)), "o")
        axes.set_yticks(range(len(there)), [name[:30] for name, _ in there])
    axes.set(xlabel=f"letters (at most {LONGEST})", title="Lengths of names: median, 5 to 95 %")


def _node_types(axes: Any, profiles: dict[str, Profile]) -> None:
    names = list(profiles["graph"].node_types)[:20]
    width = 0.8 / len(profiles)
    for number, (label, entry) in enumerate(profiles.items()):
        shares = [entry.node_types.get(name, 0) / max(entry.nodes, 1) for name in names]
        axes.barh(np.arange(len(names)) + number * width, shares, width, label=label)
    axes.set_yticks(np.arange(len(names)) + 0.4 - width / 2, [name[:30] for name in names])
    axes.invert_yaxis()
    axes.set(xlabel="share of nodes", title="Types of nodes")
    axes.legend()
