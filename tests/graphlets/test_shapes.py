"""The 29 shapes, their codes and what is derived from them."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from kgqa_hpc.graphlets.shapes import (
    AUTOMORPHISMS,
    POSITIONS,
    SHAPE_OF,
    SHAPES,
    SUBCOPIES,
    code_of,
    template_order,
)

PUBLISHED = Path(__file__).parents[3] / "shared" / "data" / "shapes" / "graphlets.json"


def test_ids_and_edges_are_the_published_ones():
    if not PUBLISHED.exists():
        pytest.skip("THE PUBLISHED TEMPLATES ARE NOT HERE")
    published = {item["id"]: item for items in json.loads(PUBLISHED.read_text()).values() for item in items}
    del published[0]  # the single edge
    assert set(published) == set(SHAPES)
    for shape in SHAPES.values():
        assert [list(edge) for edge in shape.edges] == published[shape.id]["edges"]
        assert shape.k == len(published[shape.id]["nodes"])


def test_names_are_distinct():
    assert len({shape.name for shape in SHAPES.values()}) == 29


@pytest.mark.parametrize(("k", "connected"), [(3, 4), (4, 38), (5, 728)])
def test_every_connected_labelled_graph_is_exactly_one_shape(k, connected):
    # number of connected labelled graphs: OEIS A001187
    assert (SHAPE_OF[k] > 0).sum() == connected
    assert {SHAPES[int(s)].k for s in SHAPE_OF[k] if s} == {k}


def test_positions_bring_a_code_to_its_template():
    for k in (3, 4, 5):
        for code in np.flatnonzero(SHAPE_OF[k]).tolist():
            shape = SHAPES[int(SHAPE_OF[k][code])]
            assert code_of(shape.edges, POSITIONS[k][code].tolist()) == code


def test_labellings_and_symmetries_make_up_all_permutations():
    for shape in SHAPES.values():
        labellings = int((SHAPE_OF[shape.k] == shape.id).sum())
        assert labellings * len(AUTOMORPHISMS[shape.id]) == math.factorial(shape.k)


def test_subcopies_equal_an_independent_enumeration():
    """Copies of s in t = injective maps that send edges to edges, over the automorphisms of s."""
    for t, s in itertools.product(SHAPES.values(), SHAPES.values()):
        if t.k != s.k:
            continue
        inside = {frozenset(edge) for edge in t.edges}
        maps = sum(
            all(frozenset((place[a], place[b])) in inside for a, b in s.edges)
            for place in itertools.permutations(range(t.k))
        )
        assert SUBCOPIES[t.id].get(s.id, 0) == maps // len(AUTOMORPHISMS[s.id])


def test_template_order_is_the_same_however_an_occurrence_was_found():
    names = np.array([70, 3, 41, 8, 25])
    for shape in SHAPES.values():
        edges = {frozenset((int(names[a]), int(names[b]))) for a, b in shape.edges}
        orders = set()
        for found in itertools.permutations(range(shape.k)):
            place = np.argsort(found)  # node t of the template stands at position place[t]
            nodes = np.full((1, 5), -1)
            nodes[0, : shape.k] = names[list(found)]
            code = code_of(shape.edges, place.tolist())
            row = template_order(shape.id, nodes, np.array([code]))[0]
            assert {frozenset((int(row[a]), int(row[b]))) for a, b in shape.edges} == edges
            assert (row[shape.k :] == -1).all()
            orders.add(tuple(row.tolist()))
        assert len(orders) == 1
