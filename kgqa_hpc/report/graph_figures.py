"""Figures of the graph before and after reduction, for the page; BioGraphletQA's Figures 3, 9 and 10."""

from __future__ import annotations

from itertools import accumulate

from kgqa_hpc.kg.profile import LONGEST, Profile, Profiles
from kgqa_hpc.report.svg import scatter
from kgqa_hpc.report.svg_rows import bars, ranges

TYPES = 20  # rows of a figure
SHORT = 5  # of them in the text alternative


def graph_figures(profiles: Profiles) -> dict[str, str]:
    """SVG of degrees, node types and lengths of names."""
    both = {"wait": profiles.graph, **({"acc": profiles.reduced} if profiles.reduced else {})}
    when = dict(zip(both, ("before reduction", "after"), strict=False))
    return {
        "degrees": _degrees(both, when),
        "node_types": _node_types(both, when),
        "name_lengths": _name_lengths(profiles.graph),
    }


def _degrees(both: dict[str, Profile], when: dict[str, str]) -> str:
    told = "; ".join(
        f"{when[kind]} {one.nodes:,} nodes, "
        f"median degree {_median(one.degrees):,}, highest {max(one.degrees, default=0):,}"
        for kind, one in both.items()
    )
    series = [(kind, one.degrees) for kind, one in both.items()]
    return scatter(
        series, f"Degrees of nodes: {told}", "degree (across), nodes that have it (up), both logarithmic"
    )


def _median(degrees: dict[int, int]) -> int:
    """The degree that half of the nodes do not exceed."""
    upto = zip(degrees, accumulate(degrees.values()), strict=True)
    return next((degree for degree, count in upto if 2 * count >= sum(degrees.values())), 0)


def _node_types(both: dict[str, Profile], when: dict[str, str]) -> str:
    names = list(both["wait"].node_types)
    shares = {
        kind: [one.node_types.get(name, 0) / max(one.nodes, 1) for name in names]
        for kind, one in both.items()
    }
    told = "; ".join(
        f"{when[kind]} "
        + ", ".join(f"{name} {100 * share:.1f} %" for name, share in zip(names[:SHORT], each, strict=False))
        for kind, each in shares.items()
    )
    title = f"Types of nodes, {len(names):,} in all: {told}"
    return bars(
        names[:TYPES], [(kind, each[:TYPES]) for kind, each in shares.items()], title, "share of nodes"
    )


def _name_lengths(graph: Profile) -> str:
    there = list(graph.names.items())[:TYPES]
    told = "; ".join(
        f"{name} median {one.quantiles[2]:g}, longest {one.longest:,}, {one.above:,} of {one.named:,} above {LONGEST}"
        for name, one in there[:SHORT]
    )
    unit = f"letters of a name (cut at {LONGEST}): median, 25 to 75 and 5 to 95 %"
    rows = [one.quantiles for _, one in there]
    return ranges([name for name, _ in there], rows, LONGEST, f"Lengths of names by type: {told}", unit)
