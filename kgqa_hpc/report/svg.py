"""Figures of the page as SVG text: bars, histograms and lines, in the page's own colours, light or dark.

Every figure has a title, which is its text alternative. No style attribute is used (the page's security
policy forbids them): classes name the colours. The same numbers give the same bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 460, 220
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 10, 40
INNER = WIDTH - LEFT - RIGHT
BINS = 60  # most bins of a histogram
GRID = 30  # cells of a density along each axis
# Layout of a figure with a row per name: width of the column of names, height of a row, most letters of a name.
NAMES, ROW, CUT = 150, 22, 24
WORDS = {"acc": " accepted", "rej": " rejected", "lost": " invalid or failed", "wait": " waiting"}
Series = tuple[str, Sequence[float]]  # class name (acc, rej, lost, wait) and values
Counted = tuple[str, Mapping[int, int]]  # class name, and the count of each value
Range = tuple[float, float, float, float, float]  # quantiles 5, 25, 50, 75, 95 %


def tag(name: str, kind: str, text: str = "", title: str = "", **attributes: Any) -> str:
    """An element of the class `kind` with escaped text and title; numbers have five digits."""
    head = f' class="{kind}"' if kind else ""
    for key, value in attributes.items():
        head += f' {key.replace("_", "-")}="{value if isinstance(value, str) else f"{value:.5g}"}"'
    body = (f"<title>{escape(title)}</title>" if title else "") + escape(text)
    return f"<{name}{head}>{body}</{name}>"


def label(x: float, y: float, text: str, kind: str = "mid") -> str:
    """A text label centred at `x`; a label of the kind "end" ends at `x`."""
    return tag("text", kind, text, x=x, y=y)


def box(kind: str, x: float, y: float, width: float, height: float, title: str = "", **more: Any) -> str:
    return tag("rect", kind, title=title, x=x, y=y, width=width, height=height, **more)


def cut(text: str, letters: int) -> str:
    """The text, cut to at most `letters` characters."""
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def picture(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """The figure without heading, with its text alternative."""
    head = f'<svg class="figure" viewBox="0 0 {width} {height}" width="{width}" role="img">'
    return f"{head}<title>{escape(title)}</title>{''.join(parts)}</svg>"


def framed(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """A complete figure: its title is the text alternative and, for readers who see it, the caption."""
    # A screen reader would read the repeated words twice, so they are hidden from it.
    caption = f'<figcaption aria-hidden="true">{escape(title)}</figcaption>'
    return f"<figure>{picture(width, height, title, parts)}{caption}</figure>"


def stacked_bars(names: Sequence[str], series: Sequence[Series], title: str, unit: str) -> str:
    """One bar per name, `series` stacked on each other; wide enough for every name to be read."""
    width = max(WIDTH, 26 * len(names) + LEFT + RIGHT)
    step = (width - LEFT - RIGHT) / max(len(names), 1)
    high = max(map(sum, zip(*(values for _, values in series), strict=True)), default=0) or 1
    parts = _stacks(names, series, lambda value: value / high, step, 0.1 * step, WORDS)
    for i, name in enumerate(names):
        word = name.rsplit(" ", 1)[-1]  # `11` of `shape 11`
        parts.append(label(LEFT + (i + 0.5) * step, HEIGHT - BOTTOM + 14, cut(word, 6)))
    return _chart(parts, title, unit, high, width=width)


def histogram(
    series: Sequence[Counted],
    title: str,
    unit: str,
    marks: Sequence[float] = (),
    *,
    logarithmic: bool = False,
) -> str:
    """Stacked histograms of whole numbers over at most BINS equal bins, with vertical lines at the `marks`."""
    every = [value for _, counts in series for value in counts]
    low, high = min(every, default=0), max(every, default=0)
    size = -(-(high - low + 1) // BINS)
    bins = -(-(high - low + 1) // size)
    edges = low + size * np.arange(bins + 1)
    stacks = [
        (kind, np.histogram(list(counts), edges, weights=np.array(list(counts.values()), int))[0].tolist())
        for kind, counts in series
    ]
    names = [f"{start:,}" + (f"-{start + size - 1:,}" if size > 1 else "") for start in edges[:-1].tolist()]
    scale = _log if logarithmic else float
    most = scale(max(map(sum, zip(*(values for _, values in stacks), strict=True)))) or 1.0
    parts = _stacks(names, stacks, lambda value: scale(value) / most, INNER / bins)
    unit_width = INNER / bins / size
    for mark in (mark for mark in marks if every and low <= mark <= high):
        x = LEFT + (mark - low) * unit_width
        parts.append(tag("line", "mark", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM))
    for value in sorted({low, (low + high) // 2, high}):
        last = value == high > low  # its label ends at the edge, so that it is not cut
        x = LEFT + INNER if last else LEFT + (value - low + 0.5) * unit_width
        parts.append(label(x, HEIGHT - BOTTOM + 14, f"{value:,}", "end" if last else "mid"))
    return _chart(parts, title, unit, most, logarithmic=logarithmic)


def line(points: Sequence[tuple[float, float]], title: str, unit: str) -> str:
    """A line through (x, y), both from 0."""
    far, high = (max((point[axis] for point in points), default=0.0) or 1.0 for axis in (0, 1))
    path = " ".join(f"{LEFT + x / far * INNER:.1f},{_y(y / high):.1f}" for x, y in points)
    return _chart([tag("polyline", "line", points=path)], title, unit, high, far)


def density(x: NDArray[np.float64], y: NDArray[np.float64], title: str, unit: str) -> str:
    """Density of points (x[i], y[i]): a grid over both ranges from 0, darker cells hold more points."""
    far, high = (float(axis.max(initial=0)) or 1.0 for axis in (x, y))
    counts = np.histogram2d(x, y, GRID, [[0, far], [0, high]])[0]
    shades = 0.15 + 0.85 * np.log10(counts + 1) / max(_log(counts.max()), 1e-9)
    wide, tall = INNER / GRID, (HEIGHT - TOP - BOTTOM) / GRID
    parts = [
        box("acc", LEFT + i * wide, _y((k + 1) / GRID), wide, tall, fill_opacity=shades[i, k])
        for i, k in np.argwhere(counts).tolist()
    ]
    return _chart(parts, title, unit, high, far)


def scatter(series: Sequence[Counted], title: str, unit: str) -> str:
    """Counts of positive values on two logarithmic axes; points at one position are drawn once."""
    far = _log(max((value for _, counts in series for value in counts), default=1)) or 1.0
    high = _log(max((n for _, counts in series for n in counts.values()), default=0)) or 1.0
    parts = []
    for kind, counts in series:
        points = {
            (round(LEFT + _log(value) / far * INNER), round(_y(_log(count) / high)))
            for value, count in counts.items()
            if value > 0
        }
        parts += [tag("circle", kind, cx=x, cy=y, r=2) for x, y in sorted(points)]
    return _chart(parts, title, unit, high, far, logarithmic=True)


def bars(names: Sequence[str], series: Sequence[Series], title: str, unit: str) -> str:
    """One row per name, with one bar for each of `series`, whose values are shares of 1."""
    most = max((value for _, values in series for value in values), default=0.0) or 1.0
    thick = (ROW - 6) / max(len(series), 1)
    parts = []
    for row, name in enumerate(names):
        for number, (kind, values) in enumerate(series):
            y, width = TOP + ROW * row + 3 + number * thick, values[row] / most * _ACROSS
            parts.append(box(kind, NAMES, y, width, thick, f"{name}: {100 * values[row]:.1f} %"))
    return _rows(names, parts, title, unit, ("0", f"{50 * most:.3g} %", f"{100 * most:.3g} %"))


def ranges(names: Sequence[str], rows: Sequence[Range], most: float, title: str, unit: str) -> str:
    """One row per name: a thin line from 5 to 95 %, a thick one from 25 to 75 %, the median; cut at `most`."""
    high = min(max((row[-1] for row in rows), default=0.0), most) or 1.0
    parts = []
    for number, (name, row) in enumerate(zip(names, rows, strict=True)):
        low, lower, middle, upper, top = (NAMES + min(value, high) / high * _ACROSS for value in row)
        y = TOP + ROW * (number + 0.5)
        spans = f"25 to 75 % {row[1]:g} to {row[3]:g}, 5 to 95 % {row[0]:g} to {row[4]:g}"
        parts += [
            f"<g><title>{escape(f'{name}: median {row[2]:g}, {spans}')}</title>",
            tag("line", "thin", x1=low, x2=top, y1=y, y2=y),
            box("wait", lower, y - 4, upper - lower, 8),
            tag("circle", "acc", cx=middle, cy=y, r=4) + "</g>",
        ]
    return _rows(names, parts, title, unit, ("0", f"{high / 2:g}", f"{high:g}"))


_ACROSS = WIDTH - NAMES - RIGHT - 12  # width of the bars in a figure with a row per name


def _rows(
    names: Sequence[str], parts: Sequence[str], title: str, unit: str, ticks: tuple[str, str, str]
) -> str:
    """A complete figure with a row per name, and ticks at the start, middle and end of the horizontal axis."""
    bottom = TOP + ROW * len(names)
    labels = [
        label(NAMES - 5, TOP + ROW * (row + 0.5) + 4, cut(name, CUT), "end") for row, name in enumerate(names)
    ]
    grid = []
    for share, text in zip((0, 0.5, 1), ticks, strict=True):
        x = NAMES + share * _ACROSS
        grid += [tag("line", "grid", x1=x, x2=x, y1=TOP, y2=bottom), label(x, bottom + 14, text)]
    height = bottom + BOTTOM
    return framed(WIDTH, height, title, [*grid, *labels, *parts, label(WIDTH / 2, height - 6, unit)])


def _chart(
    parts: Sequence[str],
    title: str,
    unit: str,
    high: float,
    far: float | None = None,
    *,
    width: int = WIDTH,
    logarithmic: bool = False,
) -> str:
    """A complete figure with a vertical axis from 0 to `high`, and ticks from 0 to `far` below it, if given.

    On `logarithmic` axes, both are values of _log.
    """
    inner = width - LEFT - RIGHT
    grid, ticks = [], []
    for share in (0.0, 0.5, 1.0):
        y = _y(share)
        grid.append(tag("line", "grid", x1=LEFT, x2=width - RIGHT, y1=y, y2=y))
        grid.append(label(LEFT - 5, y + 4, _tick(high * share, logarithmic), "end"))
        if far is not None:  # the last label ends at the edge, so that it is not cut
            kind = "end" if share == 1.0 else "mid"
            ticks.append(
                label(LEFT + share * inner, HEIGHT - BOTTOM + 14, _tick(far * share, logarithmic), kind)
            )
    return framed(width, HEIGHT, title, [*grid, *parts, *ticks, label(LEFT + inner / 2, HEIGHT - 6, unit)])


def _stacks(
    names: Sequence[str],
    series: Sequence[Series],
    share: Callable[[float], float],
    step: float,
    gap: float = 0.0,
    words: Mapping[str, str] | None = None,
) -> list[str]:
    """Boxes of the values of `series`, stacked on each other in a column per name; `share` maps a value to its share of
    the axis, `words` a class name to the end of a box's title.
    """
    parts = []
    for i, name in enumerate(names):
        base = 0.0
        for kind, values in series:
            if values[i]:
                top, under = _y(share(base + values[i])), _y(share(base))
                text = f"{name}: {values[i]:,}{(words or {}).get(kind, '')}"
                parts.append(box(kind, LEFT + i * step + gap, top, step - 2 * gap, under - top, text))
            base += values[i]
    return parts


def _y(share: float) -> float:
    """The position at a share of the vertical axis."""
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)


def _tick(value: float, logarithmic: bool) -> str:
    number = 10**value - 1 if logarithmic else value
    if number >= 1e6:
        return f"{number / 1e6:.3g} M"
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:.2g}"


def _log(value: float) -> float:
    return log10(value + 1)
