"""stats/graphlets.csv: how many graphlets of each shape there are and how many were drawn (Table 1)."""

from __future__ import annotations

import csv
import io

from kgqa_hpc.graphlets.sample import GraphletSample
from kgqa_hpc.graphlets.shapes import SHAPES

COLUMNS = ("id", "name", "nodes", "edges", "total", "standard_error", "ratio", "sampled")


def statistics_csv(sample: GraphletSample) -> str:
    """One row per shape.

    `total` is exact where `standard_error` is 0; `ratio` = sampled / total, empty where there is none.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    sampled = sample.sampled()
    for number, shape in SHAPES.items():
        total, drawn = sample.totals[number], sampled[number]
        ratio = f"{drawn / total:.6g}" if total else ""
        error = f"{sample.errors[number]:.6g}"
        writer.writerow([number, shape.name, shape.k, len(shape.edges), total, error, ratio, drawn])
    return out.getvalue()
