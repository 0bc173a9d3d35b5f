"""Figures of the page as SVG text: bars, histograms and lines, in the page's own colours, light or dark.

Every figure has a title, which is its text alternative. No style attribute is used (the page's security
policy forbids them): classes name the colours. The same numbers give the same bytes.
"""

from collections.abc import Mapping, Sequence
from html import escape
from math import log10

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 460, 220
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 10, 40
GRID = 30  # cells of a density along each axis
WORDS = {"acc": "accepted", "rej": "rejected", "lost": "invalid or failed", "wait": "waiting"}
Series = tuple[str, Sequence[float]]  # class name (acc, rej, lost, wait) and values
Counted = tuple[str, Mapping[int, int]]  # class name, and the count of each value


def stacked_bars(names: Sequence[str], series: Sequence[Series], title: str, unit: str) -> str:
    """One bar per name, `series` stacked on each other; wide enough for every name to be read."""
    totals = [sum(values[i] for _, values in series) for i in range(len(names))]
    chart = _Chart(max(WIDTH, 26 * len(names) + LEFT + RIGHT), max(totals, default=0), title)
    step = chart.inner / max(len(names), 1)
    for i, name in enumerate(names):
        base = 0.0
        for kind, values in series:
            if values[i]:
                top = chart.y(base + values[i])
                bar_title = f"{name}: {values[i]:,} {WORDS.get(kind, kind)}"
                chart.box(LEFT + (i + 0.1) * step, top, step * 0.8, chart.y(base) - top, kind, bar_title)
            base += values[i]
        word = name.rsplit(" ", 1)[-1]  # `11` of `shape 11`
        chart.label(LEFT + (i + 0.5) * step, HEIGHT - BOTTOM + 14, cut(word, 6))
    return chart.end(unit)


def histogram(
    series: Sequence[Counted],
    title: str,
    unit: str,
    marks: Sequence[float] = (),
    *,
    logarithmic: bool = False,
) -> str:
    """Stacked histograms of whole numbers over at most 60 bins that hold equally many numbers each."""
    every = [value for _, values in series for value in values]
    low, high = min(every, default=0), max(every, default=0)
    size = -(-(high - low + 1) // 60)
    bins = -(-(high - low + 1) // size)
    counts = [[0] * bins for _ in series]
    for (_, values), count in zip(series, counts, strict=True):
        for value, number in values.items():
            count[(value - low) // size] += number
    totals = [sum(count[b] for count in counts) for b in range(bins)]
    scale = _log if logarithmic else float
    chart = _Chart(WIDTH, scale(max(totals, default=0)), title, logarithmic=logarithmic)
    step = chart.inner / bins
    for b in range(bins):
        base = 0
        for (kind, _), count in zip(series, counts, strict=True):
            if count[b]:
                top, under = chart.y(scale(base + count[b])), chart.y(scale(base))
                bin_range = f"{low + b * size:,}" + (f"-{low + (b + 1) * size - 1:,}" if size > 1 else "")
                chart.box(LEFT + b * step, top, step, under - top, kind, f"{bin_range}: {count[b]:,}")
            base += count[b]
    for mark in marks:
        x = LEFT + (mark - low) / max(bins * size, 1) * chart.inner
        rule = f'x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"'
        chart.parts.append(f'<line class="mark" {rule}/>')
    for value in (low, (low + high) // 2, high):
        chart.label(
            LEFT + (value - low + 0.5) / (bins * size) * chart.inner, HEIGHT - BOTTOM + 14, f"{value:,}"
        )
    return chart.end(unit)


def line(points: Sequence[tuple[float, float]], title: str, unit: str) -> str:
    """A line through (x, y), both from 0."""
    high = max((y for _, y in points), default=0.0)
    far = max((x for x, _ in points), default=0.0) or 1.0
    chart = _Chart(WIDTH, high, title)
    path = " ".join(f"{LEFT + x / far * chart.inner:.1f},{chart.y(y):.1f}" for x, y in points)
    chart.parts.append(f'<polyline class="line" points="{path}"/>')
    return chart.end(unit, far)


def density(x: NDArray[np.float64], y: NDArray[np.float64], title: str, unit: str) -> str:
    """Density of points (x[i], y[i]): a grid over both ranges from 0, darker cells hold more points."""
    far, high = (float(axis.max(initial=0)) or 1.0 for axis in (x, y))
    chart = _Chart(WIDTH, high, title)
    indices = (np.minimum((axis / end * GRID).astype(int), GRID - 1) for axis, end in ((x, far), (y, high)))
    filled, counts = np.unique(np.stack(list(indices), axis=1), axis=0, return_counts=True)
    cells = dict(zip(map(tuple, filled.tolist()), counts.tolist(), strict=True))
    most, step, tall = max(cells.values(), default=1), chart.inner / GRID, (HEIGHT - TOP - BOTTOM) / GRID
    for (column, row), count in sorted(cells.items()):
        shade = 0.15 + 0.85 * _log(count) / _log(most)
        top = chart.y(high * (row + 1) / GRID)
        box_attributes = (
            f'x="{LEFT + column * step:.1f}" y="{top:.1f}" width="{step:.1f}" height="{tall:.1f}"'
        )
        chart.parts.append(f'<rect class="acc" fill-opacity="{shade:.2f}" {box_attributes}/>')
    return chart.end(unit, far)


def scatter(series: Sequence[Counted], title: str, unit: str) -> str:
    """Counts of positive values on two logarithmic axes; points at one position are drawn once."""
    far = _log(max((value for _, counts in series for value in counts), default=1))
    most = max((n for _, counts in series for n in counts.values()), default=0)
    chart = _Chart(WIDTH, _log(most), title, logarithmic=True)
    for kind, counts in series:
        points = {
            (round(LEFT + _log(value) / far * chart.inner), round(chart.y(_log(count))))
            for value, count in counts.items()
            if value > 0
        }
        chart.parts += [f'<circle class="{kind}" cx="{x}" cy="{y}" r="2"/>' for x, y in sorted(points)]
    return chart.end(unit, far)


def cut(text: str, letters: int) -> str:
    """The text in at most so many letters."""
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def framed(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """A complete figure: its title is the text alternative and, for readers who see it, the caption."""
    # Repeated words are left out, because a screen reader would read them twice.
    caption = f'<figcaption aria-hidden="true">{escape(title)}</figcaption>'
    return f"<figure>{picture(width, height, title, parts)}{caption}</figure>"


def picture(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """The figure without heading, with its text alternative."""
    head = f'<svg class="figure" viewBox="0 0 {width} {height}" width="{width}" role="img">'
    return f"{head}<title>{escape(title)}</title>{''.join(parts)}</svg>"


class _Chart:
    """Axes from 0 to `high`; for `logarithmic` axes, values are transformed by _log first."""

    def __init__(self, width: int, high: float, title: str, *, logarithmic: bool = False) -> None:
        self.width, self.inner = width, width - LEFT - RIGHT
        self._high = high or 1.0
        self._title, self._logarithmic = title, logarithmic
        self.parts: list[str] = []
        for share in (0.0, 0.5, 1.0):
            y, text = self.y(self._high * share), self._tick(self._high * share)
            self.parts.append(
                f'<line class="grid" x1="{LEFT}" x2="{width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            )
            self.parts.append(f'<text class="end" x="{LEFT - 5}" y="{y + 4:.1f}">{text}</text>')

    def y(self, value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / self._high)

    def box(self, x: float, y: float, width: float, height: float, kind: str, title: str) -> None:
        attributes = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.parts.append(f'<rect class="{kind}" {attributes}><title>{escape(title)}</title></rect>')

    def label(self, x: float, y: float, text: str, last: bool = False) -> None:
        """Text centred at `x`; the last label of an axis ends at `x`, so that it is not cut."""
        self.parts.append(
            f'<text class="{"end" if last else "mid"}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
        )

    def _tick(self, value: float) -> str:
        number = 10**value - 1 if self._logarithmic else value
        if number >= 1e6:
            return f"{number / 1e6:.3g} M"
        return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:.2g}"

    def end(self, unit: str, far: float | None = None) -> str:
        """The complete figure; with horizontal ticks from 0 to `far`, if given."""
        for share in (0.0, 0.5, 1.0) if far is not None else ():
            x, text = LEFT + share * self.inner, self._tick((far or 0.0) * share)
            self.label(x, HEIGHT - BOTTOM + 14, text, share == 1.0)
        self.label(LEFT + self.inner / 2, HEIGHT - 6, unit)
        return framed(self.width, HEIGHT, self._title, self.parts)


def _log(value: float) -> float:
    return log10(value + 1)


NAMES = 150  # units for the names at the left
ROW = 22
CUT = 24  # number of letters of a name that fit into NAMES
Range = tuple[float, float, float, float, float]  # 5, 25, 50, 75, 95 %


def bars(names: Sequence[str], series: Sequence[Series], title: str, unit: str) -> str:
    """One row per name, with one bar for each of `series`, whose values are shares of 1."""
    most = max((value for _, values in series for value in values), default=0.0) or 1.0
    chart = _Rows(names, title)
    thick = (ROW - 6) / max(len(series), 1)
    for row, name in enumerate(names):
        for number, (kind, values) in enumerate(series):
            width = values[row] / most * chart.inner
            box = f'x="{NAMES}" y="{chart.top(row) + 3 + number * thick:.1f}" width="{width:.1f}" height="{thick:.1f}"'
            bar_title = escape(f"{name}: {100 * values[row]:.1f} %")
            chart.parts.append(f'<rect class="{kind}" {box}><title>{bar_title}</title></rect>')
    return chart.end(unit, ["0", f"{50 * most:.3g} %", f"{100 * most:.3g} %"])


def ranges(names: Sequence[str], rows: Sequence[Range], most: float, title: str, unit: str) -> str:
    """One row per name: a thin line from 5 to 95 %, a thick one from 25 to 75 %, the median; cut at `most`."""
    high = min(max((row[-1] for row in rows), default=0.0), most) or 1.0
    chart = _Rows(names, title)
    for number, (name, row) in enumerate(zip(names, rows, strict=True)):
        low, lower, middle, upper, top = (NAMES + min(value, high) / high * chart.inner for value in row)
        y = chart.top(number) + ROW / 2
        spans = f"25 to 75 % {row[1]:g} to {row[3]:g}, 5 to 95 % {row[0]:g} to {row[4]:g}"
        row_title = f"{name}: median {row[2]:g}, {spans}"
        chart.parts.append(
            f"<g><title>{escape(row_title)}</title>"
            f'<line class="thin" x1="{low:.1f}" x2="{top:.1f}" y1="{y}" y2="{y}"/>'
            f'<rect class="wait" x="{lower:.1f}" y="{y - 4}" width="{upper - lower:.1f}" height="8"/>'
            f'<circle class="acc" cx="{middle:.1f}" cy="{y}" r="4"/></g>'
        )
    return chart.end(unit, ["0", f"{high / 2:g}", f"{high:g}"])


class _Rows:
    def __init__(self, names: Sequence[str], title: str) -> None:
        self.inner = WIDTH - NAMES - RIGHT - 12
        self.bottom = TOP + ROW * len(names)
        self._title = title
        self.parts = [
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{self.bottom}"/>'
            for x in (NAMES + share * self.inner for share in (0.0, 0.5, 1.0))
        ]
        for row, name in enumerate(names):
            y = self.top(row) + ROW / 2 + 4
            label = escape(cut(name, CUT))
            self.parts.append(f'<text class="end" x="{NAMES - 5}" y="{y:.1f}">{label}</text>')

    def top(self, row: int) -> float:
        return TOP + ROW * row

    def end(self, unit: str, ticks: Sequence[str]) -> str:
        for share, text in zip((0.0, 0.5, 1.0), ticks, strict=True):
            x = NAMES + share * self.inner
            self.parts.append(f'<text class="mid" x="{x:.1f}" y="{self.bottom + 14}">{escape(text)}</text>')
        height = self.bottom + BOTTOM
        self.parts.append(f'<text class="mid" x="{WIDTH / 2}" y="{height - 6}">{escape(unit)}</text>')
        return framed(WIDTH, height, self._title, self.parts)
