"""Item records of version 1, brought into the form of version 2 (docs/format.md).

Version 1 knew graphlets only: `shape` instead of group, no features, annotations or records, and one judge.
"""

from __future__ import annotations

from typing import Any


def item_v2(item: dict[str, Any]) -> dict[str, Any]:
    """The item's record as version 2 stores it; `decided` where verdicts alone made the outcome."""
    if "decided" in item:
        return item
    reason, status = item["reason"], item["status"]
    by_judge = reason is None or reason.startswith("judge: ")
    decided = status in ("accepted", "rejected") and by_judge and bool(item["output"])
    return {**item, "features": {}, "annotations": {}, "records": None, "decided": decided}


def group_totals(header: dict[str, Any]) -> dict[str, int]:
    """How many anchors of each group the source holds, from the header of anchors.h5."""
    totals = header.get("totals") or {}
    return {f"shape {name}" if name.isdigit() else name: int(total) for name, total in totals.items()}
