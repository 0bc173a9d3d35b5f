"""Small drawings of graphlets, as coordinates for the page's SVG."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import cos, pi, sin


@dataclass(frozen=True, slots=True)
class Drawing:
    """Nodes on a circle and the lines between them, in a square of `size` by `size`."""

    size: int
    radius: float
    points: tuple[tuple[float, float], ...]
    lines: tuple[tuple[float, float, float, float], ...]


def draw(nodes: int, edges: Iterable[Iterable[int]], size: int, radius: float) -> Drawing:
    """Place `nodes` nodes of the given radius; `edges` are pairs of positions, drawn once each."""
    middle, reach = size / 2, size / 2 - radius - 1
    angles = [2 * pi * i / nodes - pi / 2 for i in range(nodes)]
    points = tuple((round(middle + reach * cos(a), 1), round(middle + reach * sin(a), 1)) for a in angles)
    pairs = sorted({tuple(sorted(edge)) for edge in edges})
    return Drawing(size, radius, points, tuple((*points[i], *points[j]) for i, j in pairs))
