"""Streams of draws: every copy equally likely, hit rates as predicted, a draw depends on its number alone."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from kgqa_hpc.graphlets.count import induced_counts
from kgqa_hpc.graphlets.sample_by_draws import Stream
from kgqa_hpc.graphlets.shapes import SHAPE_OF, SHAPES, SUBCOPIES
from kgqa_hpc.graphlets.structures import OPEN, STRUCTURES, Ground, root_copies
from kgqa_hpc.threads import Workers
from tests.graphlets.conftest import ground_of, star_of

DRAWS = 30_000


@pytest.fixture(scope="module")
def grounds(small_graphs):
    """Graphs that together hold all structures."""
    names = ("medium", "dense", "hub", "bipartite", "clique with pendants")
    return [ground_of(small_graphs[name]) for name in names]


@pytest.fixture(scope="module")
def open_grounds(grounds):
    """The same after no pass that costs anything, where cycles are drawn open."""
    return [Ground(g.graph, g.lists, g.counts, frozenset()) for g in grounds]


@pytest.fixture(scope="module")
def draws_of(grounds, open_grounds):
    """draws_of(structure, is_open) -> of each graph: induced counts, copies, sorted nodes and shapes of DRAWS draws."""

    @functools.cache
    def draw(structure, is_open=False):
        made = []
        for ground in open_grounds if is_open else grounds:
            stream = Stream(ground, structure, seed=11)
            if not stream.copies:
                continue
            assert stream.copies == root_copies(ground, structure)
            nodes, codes = stream.draw(0, DRAWS)
            assert (nodes[codes < 0] == -1).all()
            shape_of = SHAPE_OF[SHAPES[structure].k]
            shapes = np.where(codes >= 0, shape_of[np.maximum(codes, 0)], 0)
            induced = induced_counts(ground.counts.copies)
            made.append((induced, stream.copies, np.sort(nodes, axis=1), shapes))
        return made

    return draw


WAYS = [(structure, False) for structure in STRUCTURES] + [(structure, True) for structure in OPEN]


@pytest.mark.parametrize(("structure", "is_open"), WAYS)
def test_copies_are_hit_as_often_as_predicted(draws_of, structure, is_open):
    """Each shape T is hit with probability I_T * SUBCOPIES / copies: binomial z-scores over graphs."""
    z_scores = []
    for induced, copies, _, shapes in draws_of(structure, is_open):
        hits = np.bincount(shapes, minlength=30)
        for shape in SHAPES:
            p = induced[shape] * SUBCOPIES[shape].get(structure, 0) / copies
            if p == 0 or p > 1 - 1e-12:
                assert hits[shape] == (DRAWS if p else 0)
            elif DRAWS * p > 20:
                z_scores.append((hits[shape] - DRAWS * p) / np.sqrt(DRAWS * p * (1 - p)))
    assert np.max(np.abs(z_scores), initial=0) < 4.5


@pytest.mark.parametrize(("structure", "is_open"), WAYS)
def test_occurrences_of_a_shape_are_equally_likely(draws_of, structure, is_open):
    p_values = []
    for induced, _, nodes, shapes in draws_of(structure, is_open):
        keys = (nodes.astype(np.int64) + 1) @ (64 ** np.arange(5))
        for shape, count in induced.items():
            hits = keys[shapes == shape]
            if count > 1 and len(hits) >= 10 * count:
                _, seen = np.unique(hits, return_counts=True)
                p_values.append(stats.chisquare(np.append(seen, np.zeros(count - len(seen)))).pvalue)
    assert p_values
    assert min(p_values) > 1e-4 / len(p_values)


@pytest.mark.parametrize(("structure", "is_open"), WAYS)
def test_a_draw_depends_on_its_number_alone(grounds, open_grounds, structure, is_open):
    ground = (open_grounds if is_open else grounds)[1]
    alone = replace(ground, graph=replace(ground.graph, workers=Workers(1)))
    nodes, codes = Stream(alone, structure, seed=5).draw(0, 9000)
    for first, count, threads in ((0, 9000, 3), (100, 400, 2), (499, 1, 1)):
        ground = replace(ground, graph=replace(ground.graph, workers=Workers(threads)))
        part_nodes, part_codes = Stream(ground, structure, seed=5).draw(first, count)
        assert part_nodes.tobytes() == nodes[first : first + count].tobytes()
        assert part_codes.tobytes() == codes[first : first + count].tobytes()
    other, _ = Stream(ground, structure, seed=6).draw(0, 9000)
    assert other.tobytes() != nodes.tobytes()


def test_weights_beyond_64_bits_fall_back_to_floating_point():
    stream = Stream(ground_of(star_of(200_000)), 11, seed=1)
    assert stream.copies > 2**63
    nodes, codes = stream.draw(0, 1000)
    assert (SHAPE_OF[5][codes] == 11).all()
    assert (nodes[:, 0] == 0).all()
    assert len(np.unique(nodes[:, 1:])) > 3900
