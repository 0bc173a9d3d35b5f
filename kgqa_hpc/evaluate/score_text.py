"""Scores as a table for a terminal."""

from __future__ import annotations

from typing import Any

from kgqa_hpc.plain_text import plain_line


def render(document: dict[str, Any]) -> str:
    """A table from what `score.score` gave: all items, then each group."""
    names = list(document["scales"])
    judged = list(document["not_judged"])
    lines = _table(document, [name for name in names if name not in judged])
    if judged:
        lines += ["", "judged from 0 to 5:", *_table(document, judged)]
        lines += [f"{name}: {n:,} were not judged" for name, n in document["not_judged"].items() if n]
    if document["missing_predictions"]:
        lines += ["", f"{document['missing_predictions']:,} without a prediction count as empty"]
    lines += [f"{name} was not computed: {why}" for name, why in document["not_computed"].items()]
    return "\n".join(lines)


def _table(document: dict[str, Any], names: list[str]) -> list[str]:
    widths = {name: max(10, len(name) + 2) for name in names}
    heads = "".join(f"{name:>{width}}" for name, width in widths.items())
    lines = [f"{'':<34}{'items':>8}{heads}", _row("all", document, widths)]
    for label, end in (("  95 % from", 0), ("  95 % to", 1)):
        ends = {name: document["intervals"][name][end] for name in names}
        lines.append(f"{label:<42}" + _numbers(ends, widths))
    for column, groups in document["groups"].items():
        lines += ["", f"{plain_line(column)}:"]
        lines += [_row(f"  {value}", one, widths) for value, one in groups.items()]
    return lines


def _row(label: str, one: dict[str, Any], widths: dict[str, int]) -> str:
    return f"{plain_line(label)[:33]:<34}{one['items']:>8,}" + _numbers(one, widths)


def _numbers(values: dict[str, Any], widths: dict[str, int]) -> str:
    texts = ("-" if values[name] is None else f"{values[name]:.4f}" for name in widths)
    return "".join(f"{text:>{width}}" for text, width in zip(texts, widths.values(), strict=True))
