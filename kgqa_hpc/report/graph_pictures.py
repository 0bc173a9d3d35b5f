"""Pictures of graphs on the page: figures before and after reduction, the groups whose kind gives them edges, and a
sample of the graph that the accepted questions cover (BioGraphletQA's Figures 1, 3, 5, 9 and 10).
"""

from collections.abc import Iterable, Mapping
from html import escape
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from kgqa_hpc.drawing.graph_layout import few_nodes, many_nodes
from kgqa_hpc.kg.profile import LONGEST, Profile, Profiles
from kgqa_hpc.report.node_use import NodeUse
from kgqa_hpc.report.svg import WIDTH, bars, cut, framed, picture, ranges, scatter

CELL = 112  # units, of one group's drawing
HIGH = 400  # units, of the drawing of the covered graph
CLASSES = 5  # colours, q0 to q4 of the page's style
LINKS = 5000  # drawn; with them the figure stays under 200 kB
NAMED, LETTERS = 6, 26


def group_drawings(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """A small picture of every row of the page's table of groups that has `edges` (pairs of node numbers)."""
    return [_group(row) for row in rows if row.get("edges")]


def _group(row: Mapping[str, Any]) -> str:
    total, share = row["total"], row["share"]
    there = "not counted" if total is None else f"{total:,}" if total < 10**12 else f"{total:.3g}"
    scope = "" if total is None else " in the graph"
    if total == 0:
        title, lines = "absent from the graph", ["absent", "from the graph"]
    elif share.value is None:
        judged = "none drawn" if row["absent"] else "none judged"
        title, lines = f"{there}{scope}, {judged}", [there, judged]
    else:
        value, low, high = (f"{100 * part:.1f}" for part in (share.value, share.low, share.high))
        title = f"{there}{scope}, {value} % accepted (95 % interval {low} to {high} %)"
        lines = [there, f"{value} %", f"({low} to {high})"]
    at = few_nodes(row["edges"]) * 0.3 * CELL + (CELL / 2, 58)
    kind = "wait" if row["absent"] or total == 0 else "acc"
    ends = " ".join(f"M{at[a, 0]:.1f} {at[a, 1]:.1f}L{at[b, 0]:.1f} {at[b, 1]:.1f}" for a, b in row["edges"])
    parts = [f'<path class="thin" d="{ends}"/>']
    parts += [f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>' for x, y in at.tolist()]
    name = f"{row['group']} {row['name'] or ''}".strip()
    head = f"{row.get('id', '')} {row['name'] or row['group']}".strip()
    for y, text in zip((12, 112, 126, 140), (cut(head, 17), *lines), strict=False):
        parts.append(f'<text class="mid" x="{CELL / 2:g}" y="{y}">{escape(text)}</text>')
    return picture(CELL, 146, f"{name}: {title}", parts)


def covered_graph(use: NodeUse) -> str:
    """The sampled nodes in a force-directed layout, coloured by number of questions, with names of the most
    used ones.
    """
    nodes, links = use.sample.nodes, use.sample.links[:LINKS]
    at = many_nodes(len(nodes), use.sample.links)
    low, high = at.min(axis=0), at.max(axis=0)
    at = np.rint((at - low) / np.maximum(high - low, 1e-9) * (WIDTH - 20, HIGH - 30) + (10, 20)).astype(int)
    counts = np.array([count for _, _, count in nodes])
    limits = np.unique(np.rint(np.geomspace(counts.min(), counts.max() + 1, CLASSES + 1)).astype(int))
    classes = np.searchsorted(limits, counts, side="right") - 1
    first_colour = max(CLASSES - len(limits) + 1, 0) // 2  # if there are few classes, use the middle colours
    ends = "".join(f"M{x} {y}L{u} {v}" for (x, y), (u, v) in at[links].tolist())
    parts = [f'<path class="link" d="{ends}"/>']
    # The most used nodes stand first in `nodes` and are drawn last, on top of the others.
    for (x, y), (_, name, count), colour in reversed(list(zip(at.tolist(), nodes, classes, strict=True))):
        title = escape(f"{cut(name, 80)}: {count:,}")
        parts.append(
            f'<circle class="q{first_colour + colour}" cx="{x}" cy="{y}" r="4"><title>{title}</title></circle>'
        )
    parts += _names(at.tolist(), [name for _, name, _ in nodes])
    parts += _legend(limits.tolist(), first_colour)
    return framed(WIDTH, HIGH + 34, _description(use, len(links)), parts)


def _description(use: NodeUse, drawn: int) -> str:
    nodes, every = use.sample.nodes, len(use.questions)
    which = f"all {every:,} nodes"
    if len(nodes) < every:
        which = (
            f"{len(nodes):,} of {every:,} nodes, drawn by chance in proportion to their accepted questions"
        )
    most = ", ".join(f"{cut(name, 80)} ({count:,})" for _, name, count in nodes[:3])
    joined = len(use.sample.links)
    limit = f", {drawn:,} of them drawn" if drawn < joined else ""
    return (
        f"The graph that the accepted questions cover: {which}, and the {joined:,} joined pairs among them{limit}, "
        f"of {use.links:,} in all; colour: accepted questions of a node; most used: {most}"
    )


def _names(at: list[list[int]], names: list[str]) -> list[str]:
    """Labels of the first NAMED nodes that do not overlap another label."""
    boxes: list[tuple[float, float, float]] = []
    parts = []
    for (x, y), name in zip(at[: 3 * NAMED], names, strict=False):
        text = cut(name, LETTERS)
        half = 3.2 * len(text)  # letters are about 6 units wide
        middle = min(max(x, half + 2), WIDTH - half - 2)
        if all(abs(y - row_y) > 13 or abs(middle - u) > half + wide for u, row_y, wide in boxes):
            boxes.append((middle, y, half))
            parts.append(f'<text class="mid name" x="{middle:.0f}" y="{y - 7}">{escape(text)}</text>')
    return parts[:NAMED]


def _legend(limits: list[int], first_colour: int) -> list[str]:
    """The legend: a coloured square per class with its numbers of questions."""
    parts, step = [], WIDTH / CLASSES
    for colour, (low, above) in enumerate(pairwise(limits)):
        words = f"{low:,}" if above == low + 1 else f"{low:,}–{above - 1:,}"
        x = 6 + colour * step
        parts.append(
            f'<rect class="q{first_colour + colour}" x="{x:.0f}" y="{HIGH + 4}" width="10" height="10"/>'
        )
        parts.append(f'<text x="{x + 15:.0f}" y="{HIGH + 13}">{words}</text>')
    unit = f'<text class="mid" x="{WIDTH / 2:g}" y="{HIGH + 30}">accepted questions of a node</text>'
    return [*parts, unit]


TYPES = 20  # rows of a figure
SHORT = 5  # of them in the text alternative


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
    title = f"Types of nodes, {len(names):,} in all: {'; '.join(descriptions)}"
    series = [(kind, kind_shares[:TYPES]) for kind, kind_shares in shares.items()]
    return {
        "degrees": _degrees(both, when),
        "node_types": bars(names[:TYPES], series, title, "share of nodes"),
        "name_lengths": _name_lengths(profiles.graph),
    }


def _degrees(both: dict[str, Profile], when: dict[str, str]) -> str:
    description = "; ".join(
        f"{when[kind]} {profile.nodes:,} nodes, "
        f"median degree {_median(profile.degrees):,}, highest {max(profile.degrees, default=0):,}"
        for kind, profile in both.items()
    )
    series = [(kind, profile.degrees) for kind, profile in both.items()]
    unit = "degree (across), nodes that have it (up), both logarithmic"
    return scatter(series, f"Degrees of nodes: {description}", unit)


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
