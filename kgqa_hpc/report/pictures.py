"""Drawings of the page: what became of items and records, and graphs (BioGraphletQA's Figures 1, 3, 5, 7, 9 and 10).

Outcomes of items and of records are Sankey diagrams: bands from the total (left) to each outcome (right). Graphs are
figures before and after reduction, the groups whose kind gives them edges, and a sample of the graph that the accepted
questions cover.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from itertools import accumulate, pairwise
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgqa_hpc.dataset.accounting import LENGTH
from kgqa_hpc.dataset.filters import BEYOND, CONTAMINATED, EXACT, NEAR, NOT_DRAWN
from kgqa_hpc.drawing import few_nodes, many_nodes
from kgqa_hpc.kg.describe import LONGEST, Profile, Profiles
from kgqa_hpc.report.findings import NodeUse
from kgqa_hpc.report.svg import WIDTH, bars, box, cut, framed, label, picture, ranges, scatter, tag

STAGES = (
    "not done yet",
    "no usable answer",
    "length filter",
    "judges and checks",
    "duplicates",
    "contamination",
    "balanced sample",
    "target",
    "accepted",
)
# Index of each reason in STAGES.
_FILTERS = {LENGTH: 2, EXACT: 4, NEAR: 4, CONTAMINATED: 5, NOT_DRAWN: 6, BEYOND: 7}
_JUDGES = 3
OTHERS = "other reasons"
REASONS = 8  # number of reasons with a band of their own; smaller ones of a stage share a band
ACROSS, DOWN = 1000, 240  # width of the diagram of bands and height of all items in it, in units
# Labels: width of their column, characters of a line, largest number of characters of a reason.
WORDS, LETTERS, CUT = 190, 30, 200
HAIRLINE = 0.8  # smallest width of a band, so that 1 of 100,000 is visible

CELL = 112  # width and height of one group's drawing, in units
HIGH = 400  # height of the drawing of the covered graph, in units
CLASSES = 5  # number of colours, q0 to q4 of the page's style
LINKS = 5000  # largest number of links drawn; the figure stays under 200 kB
NAMED, NAME = 6, 26  # number of most used nodes with a name, largest number of letters of a name
TYPES = 20  # largest number of rows (types) of a figure
SHORT = 5  # number of these rows in the text alternative


@dataclass(frozen=True, slots=True)
class Band:
    """An outcome of `count` items: the `stage` (index in STAGES) that removed them, and their colour class."""

    stage: int
    kind: str
    count: int
    outcome: str
    reason: str = ""

    @property
    def name(self) -> str:
        """The label: outcome and reason (foreign text), cut to about CUT characters."""
        words = " ".join(f"{self.outcome}: {self.reason[: 2 * CUT]}".split()) if self.reason else self.outcome
        return cut(words, CUT)


def bands(counts: Mapping[str, Any]) -> list[Band]:
    """The non-empty outcomes of accounting.json's counts, in the order in which they leave the flow.

    The REASONS largest reasons have a band of their own; the others of a stage and outcome share a band.
    """
    ends = [
        Band(0, "wait", counts.get("waiting", 0), "waiting"),
        Band(len(STAGES) - 1, "acc", counts["accepted"], "accepted"),
    ]
    reasons = [
        Band(1, "lost", number, outcome, reason)
        for outcome in ("failed", "invalid")
        for reason, number in counts.get(outcome, {}).items()
    ]
    for reason, number in counts["rejected"].items():
        reasons.append(Band(_FILTERS.get(reason, _JUDGES), "rej", number, "rejected", reason))
    reasons = sorted((band for band in reasons if band.count), key=lambda band: (-band.count, band.reason))
    small: dict[tuple[int, str], list[Band]] = {}
    for band in reasons[REASONS:]:
        small.setdefault((band.stage, band.outcome), []).append(band)
    shared = [
        group[0]
        if len(group) == 1
        else replace(group[0], count=sum(b.count for b in group), reason=f"{OTHERS} ({len(group):,})")
        for group in small.values()
    ]
    return sorted(
        [*(band for band in ends if band.count), *reasons[:REASONS], *shared],
        key=lambda b: (b.stage, b.outcome, not b.reason.startswith(OTHERS), b.count, b.reason),
    )


def flow(counts: Mapping[str, Any], start: str, unit: str) -> str:
    """The figure: all items or records (`unit`), labelled `start`, and their outcomes; "" without any.

    A band runs from the left beside the others, leaves them at its stage, and ends in its row; the last band (accepted)
    is on top. A row is as high as its band or its label, whichever is higher; the first row of a stage has the stage's
    name above it. The total is the sum of all outcomes: merge writes no accounting if the two differ.
    """
    all_bands = bands(counts)
    if not all_bands:
        return ""
    total = sum(band.count for band in all_bands)
    texts = {band: f"{_share(band.count, total)} {band.name}" for band in all_bands}
    stages = sorted({band.stage for band in all_bands})
    shapes, labels = [], []
    # Height of the band at the left, height of its row, stage of the previous row.
    y, top, stage = 0.0, 0.0, -1
    for band in reversed(all_bands):
        heading = band.stage != stage and band.outcome != "accepted"
        top += 22 if heading else 4
        y, stage = y or top, band.stage
        high = band.count / total * DOWN
        leaves = 40 + 560 * stages.index(band.stage) / max(len(stages) - 1, 1)
        shapes.append(_shape(band.kind, y, top, max(high, HAIRLINE), leaves, texts[band]))
        lines = wrap(band.name, LETTERS, max_lines=2, placeholder="…")
        labels += [tag("text", "stage", STAGES[stage], x=8, y=top - 6)] if heading else []
        labels.append(tag("text", "count", _share(band.count, total), x=8, y=top + 11))
        labels += [tag("text", "", text, x=8, y=top + 12 + 13 * n) for n, text in enumerate(lines, 1)]
        y += high
        top += max(high, 18 + 13 * len(lines))
    head = f'viewBox="0 0 {ACROSS} {top:.1f}" height="{top:.0f}" preserveAspectRatio="none" role="img"'
    words = f'viewBox="0 0 {WORDS} {top:.1f}" width="{WORDS}" height="{top:.0f}" aria-hidden="true"'
    note = ""
    if any(band.reason.startswith(OTHERS) for band in all_bands):
        note = "<figcaption>Every reason is in <code>dataset/accounting.json</code>.</figcaption>"
    title = f"What became of the {unit}: {total:,} {start}"
    shares = "; ".join(f"{STAGES[band.stage]}: {text}" for band, text in texts.items())
    return (
        f'<figure class="flow"><p aria-hidden="true"><b>{total:,}</b> {escape(start)}</p>'
        f'<svg class="figure" {head}><title>{escape(title)}</title><desc>{escape(shares)}</desc>'
        f"{''.join(shapes)}</svg><svg {words}>{''.join(labels)}</svg>{note}</figure>"
    )


def _shape(kind: str, y: float, top: float, wide: float, leaves: float, title: str) -> str:
    """A band that starts at the height `y`, leaves the flow at the position `leaves`, and ends at the height `top`."""
    bend, end = leaves + 150, leaves + 300
    upper = f"M0 {y:.2f}H{leaves:.0f}C{bend:.0f} {y:.2f} {bend:.0f} {top:.2f} {end:.0f} {top:.2f}H{ACROSS}"
    y, top = y + wide, top + wide
    under = f"V{top:.2f}H{end:.0f}C{bend:.0f} {top:.2f} {bend:.0f} {y:.2f} {leaves:.0f} {y:.2f}H0Z"
    hair = " hair" if wide < 2 else ""  # a thin band gets an outline, because it looks pale where it is steep
    return tag("path", kind + hair, title=title, d=upper + under)


def _share(count: int, total: int) -> str:
    """A count and its share as text, e.g. `1,234 (12.3 %)`; a smaller share than 0.1 % reads `less than 0.1 %`."""
    share = 100 * count / total
    return f"{count:,} ({f'{share:.1f}' if share >= 0.1 else 'less than 0.1'} %)"


def group_drawing(row: Mapping[str, Any]) -> str:
    """A small picture of a row of the page's table of groups, which has `edges` (pairs of node numbers)."""
    total, share = row["total"], row["share"]
    number = "not counted" if total is None else f"{total:,}" if total < 10**12 else f"{total:.3g}"
    scope = "" if total is None else " in the graph"
    if total == 0:
        title, lines = "absent from the graph", ["absent", "from the graph"]
    elif share.value is None:
        judged = "none drawn" if row["absent"] else "none judged"
        title, lines = f"{number}{scope}, {judged}", [number, judged]
    else:
        value, low, high = (f"{100 * part:.1f}" for part in (share.value, share.low, share.high))
        title = f"{number}{scope}, {value} % accepted (95 % interval {low} to {high} %)"
        lines = [number, f"{value} %", f"({low} to {high})"]
    at = few_nodes(tuple(map(tuple, row["edges"]))) * 0.3 * CELL + (CELL / 2, 58)
    kind = "wait" if row["absent"] or total == 0 else "acc"
    head = cut(f"{row.get('id', '')} {row['name'] or row['group']}".strip(), 17)
    parts = [
        _links(at, np.array(row["edges"]), "thin"),
        *(tag("circle", kind, cx=x, cy=y, r=5) for x, y in at.tolist()),
        *(label(CELL / 2, y, text) for y, text in zip((12, 112, 126, 140), (head, *lines), strict=False)),
    ]
    return picture(CELL, 146, f"{row['group']} {row['name'] or ''}".strip() + f": {title}", parts)


def _links(at: NDArray[Any], links: NDArray[np.int64], kind: str) -> str:
    """Lines between the positions of linked nodes."""
    return tag(
        "path", kind, d="".join(f"M{x:.4g} {y:.4g}L{u:.4g} {v:.4g}" for (x, y), (u, v) in at[links].tolist())
    )


def covered_graph(use: NodeUse) -> str:
    """The sampled nodes in a force-directed layout, coloured by number of questions, with names of the most
    used ones.
    """
    nodes, links = use.sample, use.sample_links[:LINKS]
    at = many_nodes(len(nodes), use.sample_links)
    low, high = at.min(axis=0), at.max(axis=0)
    at = np.rint((at - low) / np.maximum(high - low, 1e-9) * (WIDTH - 20, HIGH - 30) + (10, 20)).astype(int)
    counts = np.array([count for _, _, count in nodes])
    limits = np.unique(np.rint(np.geomspace(counts.min(), counts.max() + 1, CLASSES + 1)).astype(int))
    first_colour = max(CLASSES - len(limits) + 1, 0) // 2  # if there are few classes, use the middle colours
    colours = first_colour + np.searchsorted(limits, counts, side="right") - 1
    circles = [
        tag("circle", f"q{colour}", title=f"{cut(name, 80)}: {count:,}", cx=x, cy=y, r=4)
        for (x, y), (_, name, count), colour in zip(at.tolist(), nodes, colours, strict=True)
    ]
    legend = []
    for number, (least, above) in enumerate(pairwise(limits.tolist())):
        words = f"{least:,}" if above == least + 1 else f"{least:,}–{above - 1:,}"
        x = 6 + (first_colour + number) * WIDTH / CLASSES
        legend.append(box(f"q{first_colour + number}", x, HIGH + 4, 10, 10))
        legend.append(tag("text", "", words, x=x + 15, y=HIGH + 13))
    # The most used nodes stand first in `nodes` and are drawn last, on top of the others.
    parts = [
        _links(at, links, "link"),
        *reversed(circles),
        *_names(at.tolist(), [name for _, name, _ in nodes]),
    ]
    unit = label(WIDTH / 2, HIGH + 30, "accepted questions of a node")
    return framed(WIDTH, HIGH + 34, _description(use, len(links)), [*parts, *legend, unit])


def _description(use: NodeUse, drawn: int) -> str:
    nodes, every, joined = use.sample, len(use.questions), len(use.sample_links)
    scope = f"all {every:,} nodes"
    if len(nodes) < every:
        scope = (
            f"{len(nodes):,} of {every:,} nodes, drawn by chance in proportion to their accepted questions"
        )
    most = ", ".join(f"{cut(name, 80)} ({count:,})" for _, name, count in nodes[:3])
    limit = f", {drawn:,} of them drawn" if drawn < joined else ""
    return (
        f"The graph that the accepted questions cover: {scope}, and the {joined:,} joined pairs among them{limit}, "
        f"of {use.links:,} in all; colour: accepted questions of a node; most used: {most}"
    )


def _names(at: list[list[int]], names: list[str]) -> list[str]:
    """Labels of the first NAMED nodes that do not overlap another label."""
    boxes: list[tuple[float, float, float]] = []
    parts = []
    for (x, y), name in zip(at[: 3 * NAMED], names, strict=False):
        text = cut(name, NAME)
        half = 3.2 * len(text)  # letters are about 6 units wide
        middle = min(max(x, half + 2), WIDTH - half - 2)
        if all(abs(y - row_y) > 13 or abs(middle - u) > half + wide for u, row_y, wide in boxes):
            boxes.append((middle, y, half))
            parts.append(label(middle, y - 7, text, "mid name"))
    return parts[:NAMED]


def graph_figures(profiles: Profiles) -> dict[str, str]:
    """SVG of degrees, node types and lengths of names."""
    both = {"wait": profiles.graph, **({"acc": profiles.reduced} if profiles.reduced else {})}
    when = dict(zip(both, ("before reduction", "after"), strict=False))
    names = list(both["wait"].node_types)
    shares = {
        kind: [profile.node_types.get(name, 0) / max(profile.nodes, 1) for name in names]
        for kind, profile in both.items()
    }
    descriptions = []
    for kind, kind_shares in shares.items():
        pairs = zip(names[:SHORT], kind_shares, strict=False)
        descriptions.append(f"{when[kind]} " + ", ".join(f"{name} {100 * s:.1f} %" for name, s in pairs))
    degrees = "; ".join(
        f"{when[kind]} {part.nodes:,} nodes, "
        f"median degree {_median(part.degrees):,}, highest {max(part.degrees, default=0):,}"
        for kind, part in both.items()
    )
    unit = "degree (across), nodes that have it (up), both logarithmic"
    title = f"Types of nodes, {len(names):,} in all: {'; '.join(descriptions)}"
    series = [(kind, kind_shares[:TYPES]) for kind, kind_shares in shares.items()]
    return {
        "degrees": scatter(
            [(kind, part.degrees) for kind, part in both.items()], f"Degrees of nodes: {degrees}", unit
        ),
        "node_types": bars(names[:TYPES], series, title, "share of nodes"),
        "name_lengths": _name_lengths(profiles.graph),
    }


def _median(degrees: dict[int, int]) -> int:
    """The degree that half of the nodes do not exceed."""
    upto = zip(degrees, accumulate(degrees.values()), strict=True)
    return next((degree for degree, count in upto if 2 * count >= sum(degrees.values())), 0)


def _name_lengths(graph: Profile) -> str:
    there = list(graph.names.items())[:TYPES]
    description = "; ".join(
        f"{name} median {row.quantiles[2]:g}, longest {row.longest:,}, {row.above:,} of {row.named:,} above {LONGEST}"
        for name, row in there[:SHORT]
    )
    unit = f"letters of a name (cut at {LONGEST}): median, 25 to 75 and 5 to 95 %"
    rows = [row.quantiles for _, row in there]
    return ranges(
        [name for name, _ in there], rows, LONGEST, f"Lengths of names by type: {description}", unit
    )
