"""The table and the picture of a sample."""

from __future__ import annotations

import csv
import io
import struct

import numpy as np
import pytest

from kgqa_hpc.drawing.graph_layout import crossings, few_nodes
from kgqa_hpc.graphlets.sample import COLUMNS, sample_graphlets, statistics_csv
from kgqa_hpc.graphlets.shapes import SHAPES


@pytest.fixture(scope="module")
def drawn(small_graphs):
    return sample_graphlets(*small_graphs["medium"], per_shape=20, seed=1)


def test_the_table_has_the_columns_of_the_papers_table_1(drawn):
    rows = list(csv.DictReader(io.StringIO(statistics_csv(drawn))))
    assert tuple(rows[0]) == COLUMNS
    assert {"id", "name", "nodes", "edges", "total", "ratio", "sampled"} <= set(COLUMNS)
    assert [int(row["id"]) for row in rows] == list(SHAPES)
    for row in rows:
        shape = SHAPES[int(row["id"])]
        total, sampled = drawn.totals[shape.id], drawn.sampled()[shape.id]
        assert (row["name"], int(row["nodes"]), int(row["edges"])) == (shape.name, shape.k, len(shape.edges))
        assert (int(row["total"]), int(row["sampled"]), float(row["standard_error"])) == (total, sampled, 0.0)
        assert row["ratio"] == (f"{sampled / total:.6g}" if total else "")


def test_the_picture_is_a_png_and_the_same_sample_gives_the_same_bytes(drawn):
    pytest.importorskip("matplotlib", reason="MATPLOTLIB IS NOT INSTALLED: NO PICTURE (extra: report)")
    from kgqa_hpc.graphlets.figure import shapes_png

    picture = shapes_png(drawn)
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    assert width > 800
    assert height > 800
    assert shapes_png(drawn) == picture


def test_the_layout_of_every_shape_is_legible():
    for shape in SHAPES.values():
        at = few_nodes(shape.edges)
        apart = np.linalg.norm(at[:, None] - at[None], axis=2)[np.triu_indices(shape.k, 1)]
        assert apart.min() > 0.25
        assert crossings(at, shape.edges) <= (5 if shape.id == 29 else 1)
