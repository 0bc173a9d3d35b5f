"""The figures of a graph and of a node as text for a terminal; foreign texts are shown on one line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kgqa_hpc.text.plain_text import printable

_ROWS = 25


def stats_text(document: dict[str, Any]) -> str:
    """What `look.stats` found; `reduced`, where it is there, beside it."""
    reduced = document.get("reduced")
    lines = [_figures("graph", document)]
    if reduced:
        lines.append(_figures("reduced", reduced))
    for title, key in (("node type", "node_types"), ("edge type", "edge_types")):
        lines.append(f"\n{title:<50}{'graph':>14}" + (f"{'reduced':>14}" if reduced else ""))
        lines += _rows(
            f"{one_line(name, 48):<50}{count:>14,}" + (f"{reduced[key].get(name, 0):>14,}" if reduced else "")
            for name, count in document[key].items()
        )
    lines.append("\nrelations")
    lines += _rows(
        f"{row['edges']:>14,}  {one_line(row['source'], 30)} -[{one_line(row['type'], 40)}]-> "
        f"{one_line(row['target'], 30)}"
        for row in document["relations"]
    )
    return "\n".join(lines)


def _figures(title: str, found: dict[str, Any]) -> str:
    degrees, components = found["degrees"], found["components"]
    return (
        f"{title:<8} {found['nodes']:,} nodes ({found['unnamed']:,} unnamed), {found['edges']:,} edges"
        f" ({found['distinct_edges']:,} distinct, {found['self_loops']:,} loops),"
        f" {found['simple_edges']:,} simple edges\n"
        f"{'':<8} degree {degrees['mean']:,} on average, median {degrees['median']:g}, at most "
        f"{degrees['max']:,}"
        f" · {components['number']:,} components, the largest of {components['largest']:,} nodes"
    )


def node_text(document: dict[str, Any], limit: int) -> str:
    """What `look.neighbourhood` found, with the first `limit` edges."""
    lines = [_node(document)]
    for name, value in document["properties"].items():
        lines.append(f"  {one_line(name, 30)}: {one_line(str(value))}")
    edges = document["edges"]
    lines.append(f"{document['degree']:,} neighbours, {len(edges):,} edges")
    for edge in edges[:limit]:
        kind = f"-[{one_line(edge['type'], 40)}]-"
        arrow = f"{kind}>" if edge["direction"] == "out" else f"<{kind}"
        lines.append(f"  {arrow} {_node(edge['node'])}")
    if len(edges) > limit:
        lines.append(f"  … {len(edges) - limit:,} more (-n)")
    return "\n".join(lines)


def _node(node: dict[str, Any]) -> str:
    return f"{one_line(node['name']) or '(no name)'}  {one_line(node['id'])}  [{one_line(node['type'], 40)}]"


def found_text(document: dict[str, Any]) -> str:
    """What `look.find` found."""
    lines = [f"{node['degree']:>9,}  {_node(node)}" for node in document["nodes"]]
    if document["total"] > len(document["nodes"]):
        lines.append(f"… {document['total'] - len(document['nodes']):,} more (-n)")
    return "\n".join(lines) or "nothing found"


def one_line(text: str, limit: int = 120) -> str:
    """A foreign text as it may go to a terminal: no control characters, on one line, not too long."""
    text = printable(text[: 4 * limit])
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _rows(rows: Iterable[str]) -> list[str]:
    lines, more = list(rows), "more (--json has all)"
    return lines if len(lines) <= _ROWS else [*lines[:_ROWS], f"… {len(lines) - _ROWS:,} {more}"]
