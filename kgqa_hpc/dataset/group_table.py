"""The table of counts by group, a CSV file beside the dataset; for graphlets Table 1 of BioGraphletQA (Appendix F).

Columns: `total` (anchors of the group in the graph), `count` (drawn anchors), `ratio` = count / total, `generated`
(pairs left after the length filter), `accepted`, `acceptance_ratio` = accepted / generated. A ratio without a
denominator is empty.
"""

from __future__ import annotations

import csv
import io
from typing import Any

from kgqa_hpc.dataset.accounting import Accounting, OutcomeCounts, in_order
from kgqa_hpc.dataset.facts import Facts


def table_name(facts: Facts) -> str:
    """graphlets.csv for graphlets, and so on."""
    return f"{facts.kind.removesuffix('s')}s.csv"


def group_rows(facts: Facts, accounting: Accounting) -> list[dict[str, Any]]:
    """A row per group of the kind's summary and per sampled group.

    Members: group, name (or None), the other members of the summary, total (or None), and `counts`.
    """
    by_group = {row["group"]: row for row in facts.summary}
    unlisted = {name: counts for name, counts in accounting.groups.items() if name not in by_group}
    rows = [*by_group.values(), *({"group": name} for name, _ in in_order(unlisted))]
    return [
        {"name": None, "total": None, **row, "counts": accounting.groups.get(row["group"], OutcomeCounts())}
        for row in rows
    ]


def group_table(facts: Facts, accounting: Accounting) -> str:
    """The CSV text, one row per group; a group without an id is listed by its name."""
    rows = [row for row in group_rows(facts, accounting) if row["total"] is not None or row["counts"].sampled]
    key = "id" if facts.summary else "group"
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([key, "total", "ratio", "count", "generated", "accepted", "acceptance_ratio"])
    for row in rows:
        counts, total = row["counts"], row["total"]
        accepted = counts.generated and _accepted_pairs(row["group"], counts, accounting)
        writer.writerow(
            [
                row.get(key, row["group"]),
                "" if total is None else total,
                _ratio(counts.sampled, total),
                counts.sampled,
                counts.generated,
                accepted,
                _ratio(accepted, counts.generated),
            ]
        )
    return out.getvalue()


def _accepted_pairs(group: str, counts: OutcomeCounts, accounting: Accounting) -> int:
    records = accounting.records.get(group)
    return counts.accepted if records is None else records.accepted


def _ratio(part: int, whole: int | None) -> str:
    return repr(part / whole) if whole else ""
