"""graphlets.csv: what became of each graphlet shape, in the form of Table 1 of BioGraphletQA (Appendix F).

`total` graphlets of a shape in the reduced graph, `count` of them drawn (`ratio` = count / total),
`generated` pairs left after the length filter, `accepted` ones, and `acceptance_ratio` = accepted /
generated. Ratios without a denominator are empty.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from kgqa_hpc.dataset.accounting import Accounting

HEADER = ("id", "total", "ratio", "count", "generated", "accepted", "acceptance_ratio")


def shape_table(accounting: Accounting, totals: Mapping[int, int]) -> str:
    """The CSV text: one row per shape that was counted or sampled, by id. `totals` may lack shapes."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for shape in sorted({*totals, *accounting.shapes}):
        tally = accounting.tally(shape) if shape in accounting.shapes else None
        count, generated, accepted = (
            (tally.sampled, tally.generated, tally.accepted) if tally is not None else (0, 0, 0)
        )
        total = totals.get(shape)
        writer.writerow(
            [
                shape,
                "" if total is None else total,
                _ratio(count, total),
                count,
                generated,
                accepted,
                _ratio(accepted, generated),
            ]
        )
    return out.getvalue()


def _ratio(part: int, whole: int | None) -> str:
    return repr(part / whole) if whole else ""
