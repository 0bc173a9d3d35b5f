"""Figures with one row per name, as SVG text in the manner of svg.py: shares side by side, and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from kgqa_hpc.report.svg import BOTTOM, RIGHT, TOP, WIDTH, Series, framed

NAMES = 150  # units for the names at the left
ROW = 22
CUT = 24  # letters of a name that fit there
Range = tuple[float, float, float, float, float]  # 5, 25, 50, 75, 95 %


def bars(names: Sequence[str], series: Sequence[Series], title: str, unit: str) -> str:
    """One row per name, with one bar for each of `series`, whose values are shares of 1."""
    most = max((value for _, values in series for value in values), default=0.0) or 1.0
    chart = _Rows(names, title)
    thick = (ROW - 6) / max(len(series), 1)
    for row, name in enumerate(names):
        for place, (kind, values) in enumerate(series):
            width = values[row] / most * chart.inner
            box = f'x="{NAMES}" y="{chart.top(row) + 3 + place * thick:.1f}" width="{width:.1f}" height="{thick:.1f}"'
            told = escape(f"{name}: {100 * values[row]:.1f} %")
            chart.parts.append(f'<rect class="{kind}" {box}><title>{told}</title></rect>')
    return chart.end(unit, ["0", f"{50 * most:.3g} %", f"{100 * most:.3g} %"])


def ranges(names: Sequence[str], rows: Sequence[Range], most: float, title: str, unit: str) -> str:
    """One row per name: a thin line from 5 to 95 %, a thick one from 25 to 75 %, the median; cut at `most`."""
    high = min(max((row[-1] for row in rows), default=0.0), most) or 1.0
    chart = _Rows(names, title)
    for number, (name, row) in enumerate(zip(names, rows, strict=True)):
        low, lower, middle, upper, top = (NAMES + min(value, high) / high * chart.inner for value in row)
        y = chart.top(number) + ROW / 2
        told = f"{name}: median {row[2]:g}, 25 to 75 % {row[1]:g} to {row[3]:g}, 5 to 95 % {row[0]:g} to {row[4]:g}"
        chart.parts.append(
            f"<g><title>{escape(told)}</title>"
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
            shown = name if len(name) <= CUT else f"{name[: CUT - 1]}…"
            y = self.top(row) + ROW / 2 + 4
            self.parts.append(f'<text class="end" x="{NAMES - 5}" y="{y:.1f}">{escape(shown)}</text>')

    def top(self, row: int) -> float:
        return TOP + ROW * row

    def end(self, unit: str, ticks: Sequence[str]) -> str:
        for share, text in zip((0.0, 0.5, 1.0), ticks, strict=True):
            x = NAMES + share * self.inner
            self.parts.append(f'<text class="mid" x="{x:.1f}" y="{self.bottom + 14}">{escape(text)}</text>')
        height = self.bottom + BOTTOM
        self.parts.append(f'<text class="mid" x="{WIDTH / 2}" y="{height - 6}">{escape(unit)}</text>')
        return framed(WIDTH, height, self._title, self.parts)
