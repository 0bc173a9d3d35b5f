"""Samples and estimates from streams: exactly uniform without replacement, complete where rare, true errors."""

from dataclasses import replace

import numpy as np
import pytest

from kgqa_hpc.graphlets import sample_by_draws
from kgqa_hpc.graphlets.choose_method import Costs, assign, draw_limits, expected_draws, resize
from kgqa_hpc.graphlets.count import PASSES, induced_counts
from kgqa_hpc.graphlets.sample_by_draws import HitCounts, draw_samples, pilot
from kgqa_hpc.graphlets.shapes import SHAPES
from kgqa_hpc.graphlets.structures import root_copies
from kgqa_hpc.threads import Workers
from tests.graphlets.conftest import ground_of


@pytest.fixture(scope="module")
def ground(small_graphs):
    return ground_of(small_graphs["hub"])


def assigned(ground, overestimate=1.0, **size):
    """The totals, and the stream of each shape as it always is assigned."""
    totals = {s: overestimate * t for s, t in induced_counts(ground.counts.copies).items()}
    copies = {s: root_copies(ground, s) for s in ground.structures()}
    costs = Costs(dict.fromkeys(PASSES, 0.0), len(ground.graph.indices))
    return totals, assign(totals, SHAPES, copies, costs, **size)


def drawn(ground, size, seed, threads=None):
    ground = replace(ground, graph=replace(ground.graph, workers=Workers(threads)))
    totals, assignments = assigned(ground)
    limits = draw_limits(assignments, SHAPES)
    sizes = dict.fromkeys(SHAPES, size)
    planned = resize(assignments, totals, sizes)
    return draw_samples(ground, planned, sizes, limits, seed, HitCounts())


@pytest.mark.parametrize(("batch", "segment"), [(1024, 64), (5000, 5000), (1 << 22, 333)])
def test_batches_and_segments_do_not_change_the_sample(ground, monkeypatch, batch, segment):
    expected = drawn(ground, 20, seed=1)
    monkeypatch.setattr(sample_by_draws, "BATCH", batch)
    monkeypatch.setattr(sample_by_draws, "SEGMENT", segment)
    found = drawn(ground, 20, seed=1, threads=3)
    for name in ("shape", "nodes", "codes", "position"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes()


@pytest.mark.parametrize("batch", [1, 7, 10**6])
@pytest.mark.parametrize(("waits", "expected"), [((30, 40), [1, 2, 3]), ((30, 41), [1, 2]), ((31, 0), [1])])
def test_when_a_stream_is_left_does_not_depend_on_batches(batch, waits, expected):
    """Ten hits in vain for each occurrence that is known, and twenty."""
    hits = np.full((sum(waits) + 3, 5), 1, np.int32)
    hits[waits[0] + 1], hits[-1] = 2, 3
    collector = sample_by_draws._Collector(10)
    for start in range(0, len(hits), batch):
        some = hits[start : start + batch]
        collector.add(some, np.zeros(len(some), np.int64))
    assert collector.nodes[:, 0].tolist() == expected


def test_the_limit_of_draws_is_kept(ground):
    _, assignments = assigned(ground)
    hits = HitCounts()
    limits = {a.shape: 7 for a in assignments}
    found = draw_samples(ground, assignments, dict.fromkeys(SHAPES, 1000), limits, 1, hits)
    assert set(hits.draws.values()) == {7}
    assert len(found.shape) <= 7 * len(hits.draws) * len(SHAPES)


def test_estimates_miss_by_their_standard_errors(small_graphs):
    """(estimate - exact) / standard error over seeds, shapes and graphs: mean 0, standard deviation 1."""
    scores = []
    for name in ("medium", "hub", "dense"):
        ground = ground_of(small_graphs[name])
        exact = induced_counts(ground.counts.copies)
        for seed in range(12):
            totals, errors = pilot(ground, seed, draws=1500).estimate()
            hits = {s: totals[s] / errors[s] for s in SHAPES if errors[s] > 0}
            scores += [(totals[s] - exact[s]) / errors[s] for s in hits if hits[s] > 8]
    assert len(scores) > 500
    assert abs(np.mean(scores)) < 0.15
    assert 0.85 < np.std(scores) < 1.15


def test_the_pilot_draws_only_what_shapes_of_unknown_total_contain(ground):
    """Clique streams are costly to set up, and no pentagon holds a clique."""
    hits = pilot(ground, 1, unknown=[15], draws=100)
    assert set(hits.draws) == {9, 15}
    assert pilot(ground, 1, unknown=[], draws=100).draws == {}


def test_a_shape_that_was_never_hit_has_the_error_of_one_hit():
    hits = HitCounts()
    hits.add(9, 1000.0, np.zeros(500, np.int64))
    totals, errors = hits.estimate()
    assert totals[15] == 0.0
    assert errors[15] == pytest.approx(1000.0 / 500 / 5)  # a pentagon holds five paths
    assert errors[2] == 0.0  # paths of five say nothing about triangles


@pytest.mark.parametrize(("total", "size"), [(50, 50), (50, 20), (1e9, 10_000)])
def test_expected_draws_are_those_of_the_coupon_collector(total, size):
    exact = sum(total / (total - i) for i in range(size))
    assert expected_draws(total, size, 0.5) == pytest.approx(exact / 0.5, rel=0.03)


def test_a_stream_is_left_when_it_brings_nothing_new(ground):
    """Totals that are estimates do not say when a shape is complete; its hits do."""
    _, assignments = assigned(ground, overestimate=2.0, size=10**6)
    hits = HitCounts()
    limits = {a.shape: 10**9 for a in assignments}
    found = draw_samples(ground, assignments, dict.fromkeys(SHAPES, 10**6), limits, 1, hits)
    assert max(hits.draws.values()) < 10**7
    assert len(found.shape) == sum(induced_counts(ground.counts.copies).values())
