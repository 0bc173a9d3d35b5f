"""Figures of how varied texts are: type-token curves, and topics on a UMAP of the texts (QAProt, Figures 2 and 3a)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kgqa_hpc.plugins.evaluation.diversity import drawn
from kgqa_hpc.plugins.evaluation.figures import save_figure
from kgqa_hpc.store.atomic import make_folder
from kgqa_hpc.terminal import note

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 20_000  # texts on a map, as in QAProt's Figure 4
FEWEST = 10  # texts that make a map
NEIGHBOURS = 15  # UMAP's default
INSTALL = "pip install 'kgqa_hpc[umap]'"


class Drawn(NamedTuple):
    """What is drawn of one dataset: its type-token curve, rows (n, d) of its texts, and their topics (n,)."""

    curve: Sequence[tuple[int, float]]
    vectors: Any
    labels: NDArray[np.int64]


def variety_figures(datasets: Mapping[str, Drawn], folder: Path, seed: int) -> list[Path]:
    """Write type_token.svg and, with umap-learn, topics.svg into `folder`; returns their paths."""
    make_folder(folder)
    files = [save_figure(folder / "type_token.svg", lambda f: _curves(f, datasets), width=5.6)]
    maps = {
        name: points for name, texts_of in datasets.items() if (points := _map(texts_of, seed)) is not None
    }
    if maps:
        width = 4.2 * len(maps)
        files.append(save_figure(folder / "topics.svg", lambda f: _maps(f, maps), width=width, height=4.2))
    return files


def _map(dataset: Drawn, seed: int) -> tuple[Any, NDArray[np.int64]] | None:
    """Places (n, 2) of the texts and their topics; None without umap-learn, or for too few texts."""
    try:
        from umap import UMAP
    except ImportError:
        note(f"topics.svg needs umap-learn: {INSTALL}")
        return None
    rows = np.flatnonzero(
        np.asarray(abs(dataset.vectors).sum(axis=1)).ravel()
    )  # texts without a known term have none
    rows = rows[drawn(len(rows), POINTS, seed)]
    if len(rows) < FEWEST:
        note(f"topics.svg needs {FEWEST} texts or more")
        return None
    mapper = UMAP(n_neighbors=min(NEIGHBOURS, len(rows) - 1), metric="cosine", random_state=seed, n_jobs=1)
    return mapper.fit_transform(dataset.vectors[rows]), dataset.labels[rows]


def _curves(figure: Figure, datasets: Mapping[str, Drawn]) -> None:
    axes = figure.subplots()
    for name, texts_of in datasets.items():
        axes.plot(*zip(*texts_of.curve, strict=True), label=name)
    axes.set(xlabel="words read", ylabel="different words / words", ylim=(0, None))
    axes.legend(frameon=False)


def _maps(figure: Figure, maps: Mapping[str, tuple[Any, NDArray[np.int64]]]) -> None:
    for axes, (name, (points, labels)) in zip(
        figure.subplots(1, len(maps), squeeze=False)[0], maps.items(), strict=True
    ):
        axes.scatter(
            points[:, 0], points[:, 1], c=labels, cmap="nipy_spectral", s=4, linewidths=0, rasterized=True
        )
        axes.set(title=f"{name}: {len(points):,} texts, {labels.max() + 1} topics", xticks=[], yticks=[])
