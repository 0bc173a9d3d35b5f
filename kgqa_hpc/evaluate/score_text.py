"""Scores as a table for a terminal."""

from __future__ import annotations

from typing import Any

from kgqa_hpc.evaluate.analysis_text import printable


def render(document: dict[str, Any]) -> str:
    """A table from what `score.score` gave: all items, then each group."""
    names = list(document["scales"])
    lines = [f"{'':<34}{'items':>8}" + "".join(f"{name:>10}" for name in names), _row("all", document, names)]
    intervals = [document["intervals"][name] for name in names]
    lines.append(f"{'  95 % from':<42}" + "".join(_number(low) for low, _ in intervals))
    lines.append(f"{'  95 % to':<42}" + "".join(_number(high) for _, high in intervals))
    for column, groups in document["groups"].items():
        lines += [
            "",
            f"{printable(column)}:",
            *(_row(f"  {value}", one, names) for value, one in groups.items()),
        ]
    if document["missing_predictions"]:
        lines += ["", f"{document['missing_predictions']:,} without a prediction count as empty"]
    lines += [f"{name} was not computed: {why}" for name, why in document["not_computed"].items()]
    return "\n".join(lines)


def _row(label: str, one: dict[str, Any], names: list[str]) -> str:
    return f"{printable(label)[:33]:<34}{one['items']:>8,}" + "".join(_number(one[name]) for name in names)


def _number(value: float | None) -> str:
    return f"{'-':>10}" if value is None else f"{value:>10.4f}"
