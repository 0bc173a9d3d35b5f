"""Sampling as its callers see it: uniform by both methods, reproducible, complete where rare, rightly weighted."""

import csv
import functools
import io
import struct

import numpy as np
import pytest
from scipy import stats

from kgqa_hpc.drawing import crossings, few_nodes
from kgqa_hpc.errors import InputError
from kgqa_hpc.graphlets import choose_method, sample
from kgqa_hpc.graphlets.sample import COLUMNS, sample_graphlets, shapes_png, statistics_csv
from kgqa_hpc.graphlets.sample_by_draws import pilot
from kgqa_hpc.graphlets.shapes import SHAPES
from tests.graphlets.conftest import clique_of, graph_of, occurrences, star_of

METHODS = ("enumerate", "structure")


def rows_of(drawn):
    return [
        (int(s), frozenset(v for v in row if v >= 0))
        for s, row in zip(drawn.shape, drawn.nodes.tolist(), strict=True)
    ]


@pytest.fixture(scope="module")
def variety(small_graphs):
    """One graph that holds all 29 shapes, each a handful of times at least: the small graphs side by side."""
    indptr, indices, offset = [np.zeros(1, np.int64)], [], 0
    for name in ("medium", "dense", "bipartite", "wheel"):
        part = small_graphs[name]
        indptr.append(part[0][1:] + indptr[-1][-1])
        indices.append(part[1] + offset)
        offset += len(part[0]) - 1
    return np.concatenate(indptr), np.concatenate(indices)


@pytest.mark.parametrize("method", METHODS)
def test_every_occurrence_is_equally_likely_to_be_in_a_sample(variety, method):
    """Inclusion chi-square of all shapes over many seeds, with the finite-population correction."""
    seeds, exact = 60, occurrences(variety)
    hits = {shape: dict.fromkeys(sets, 0) for shape, sets in exact.items()}
    sizes = {shape: min(7, len(sets)) for shape, sets in exact.items()}
    for seed in range(seeds):
        drawn = sample_graphlets(variety, per_shape=7, seed=seed, method=method)
        rows = rows_of(drawn)
        assert len(set(rows)) == len(rows)
        assert drawn.sampled() == sizes
        for shape, nodes in rows:
            hits[shape][nodes] += 1
    p_values = {}
    for shape, counts in hits.items():
        total, share = len(counts), sizes[shape] / len(counts)
        if share == 1.0:
            assert set(counts.values()) == {seeds}
            continue
        spread = np.array(list(counts.values())) - seeds * share
        statistic = (spread**2).sum() / (seeds * share * (1 - share)) * (total - 1) / total
        p_values[shape] = stats.chi2.sf(statistic, total - 1)
    assert len(p_values) > 20
    assert min(p_values.values()) > 1e-3 / len(p_values), p_values


@pytest.mark.parametrize("method", METHODS)
def test_shapes_with_few_occurrences_are_complete(small_graphs, method):
    for name in ("sparse", "medium", "hub", "clique with pendants", "star"):
        csr = small_graphs[name]
        drawn = sample_graphlets(csr, per_shape=10**6, seed=2, method=method)
        exact = occurrences(csr)
        assert drawn.totals == {shape: len(sets) for shape, sets in exact.items()}
        assert set(drawn.errors.values()) == {0.0}
        assert set(rows_of(drawn)) == {(shape, nodes) for shape, sets in exact.items() for nodes in sets}
        assert len(drawn) == sum(drawn.totals.values())


def test_both_methods_label_an_occurrence_alike(small_graphs):
    csr = small_graphs["medium"]
    everything = [sample_graphlets(csr, per_shape=10**6, seed=2, method=method) for method in METHODS]
    assert everything[0].nodes.tobytes() == everything[1].nodes.tobytes()
    assert everything[0].shape.tobytes() == everything[1].shape.tobytes()


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_bytes_whatever_the_threads(variety, method):
    first = sample_graphlets(variety, per_shape=25, seed=9, method=method, threads=1)
    for threads in (2, 5):
        again = sample_graphlets(variety, per_shape=25, seed=9, method=method, threads=threads)
        for name in ("shape", "nodes", "weight", "position"):
            assert getattr(again, name).tobytes() == getattr(first, name).tobytes()
        assert again.plan == first.plan
    other = sample_graphlets(variety, per_shape=25, seed=10, method=method)
    assert other.nodes.tobytes() != first.nodes.tobytes()


def assert_nested(sampled, sizes):
    """sampled(per_shape) for all `sizes`, the last of which is the largest."""
    largest = sampled(sizes[-1])
    rows = dict(zip(rows_of(largest), largest.position.tolist(), strict=True))
    for size in sizes[:-1]:
        few = sampled(size)
        assert set(rows_of(few)) == {row for row, position in rows.items() if position < size}
        assert few.position.tolist() == [rows[row] for row in rows_of(few)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("blind", [False, True])
def test_a_smaller_sample_is_part_of_a_larger_one(variety, method, blind, monkeypatch):
    """From none to all, so shapes pass from a part to the whole; with exact totals and with estimates."""
    if blind:
        monkeypatch.setattr(choose_method, "EXACT_SECONDS", -1.0)
        monkeypatch.setattr(sample, "pilot", functools.partial(pilot, draws=2000))
    assert_nested(
        lambda size: sample_graphlets(variety, per_shape=size, seed=4, method=method),
        [0, 1, 10, 11, 200, 10**5],
    )


@pytest.mark.parametrize("options", [{"max_per_node": 9}, {"node_type": np.arange(45) % 4}])
def test_a_smaller_balanced_sample_is_part_of_a_larger_one(variety, options):
    assert len(variety[0]) - 1 == 45
    assert_nested(
        lambda size: sample_graphlets(variety, per_shape=size, seed=4, **options), [0, 1, 2, 9, 40, 200]
    )


def test_how_many_are_wanted_does_not_change_the_method(monkeypatch):
    csr = graph_of(400, {(hub, leaf) for hub in range(3) for leaf in range(3, 400)})
    for module in (choose_method, sample):
        monkeypatch.setattr(module, "SHORT_SECONDS", 0.0)
    for seconds, expected in ((1e-30, "enumerate"), (1e-2, "structure")):
        for rate in ("TRIPLE_RATE", "FOUR_RATE"):
            monkeypatch.setattr(choose_method, rate, seconds)
        methods = {sample_graphlets(csr, per_shape=size, seed=1).plan.method for size in (1, 100, 20_000)}
        assert methods == {expected}


@pytest.mark.parametrize("method", METHODS)
def test_only_the_wanted_shapes_are_sampled_but_all_are_counted(small_graphs, method):
    csr = small_graphs["medium"]
    drawn = sample_graphlets(csr, per_shape=5, seed=1, shapes=[6, 2], method=method)
    assert set(drawn.shape.tolist()) == {2, 6}
    assert drawn.totals == sample_graphlets(csr, per_shape=0, seed=1).totals


@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize("n", [0, 1, 6])
def test_a_graph_without_edges_has_no_graphlets_and_an_empty_sample(n, method):
    empty = np.zeros(n + 1, np.int64), np.zeros(0, np.int32)
    drawn = sample_graphlets(empty, per_shape=3, seed=1, method=method)
    assert len(drawn) == 0
    assert drawn.nodes.shape == (0, 5)
    assert drawn.totals == dict.fromkeys(SHAPES, 0)


def test_a_star_of_200_000_leaves_is_sampled_and_not_enumerated():
    star = star_of(200_000)
    with pytest.raises(InputError, match="cannot be enumerated"):
        sample_graphlets(star, per_shape=5, seed=1, method="enumerate")
    drawn = sample_graphlets(star, per_shape=50, seed=1)
    assert drawn.plan.method == "structure"
    assert {s: n for s, n in drawn.sampled().items() if n} == {1: 50, 4: 50, 11: 50}
    assert (drawn.nodes[drawn.shape == 11][:, 0] == 0).all()


def test_where_exact_counts_cost_too_much_totals_are_estimates_with_errors(variety, monkeypatch):
    """The same graph once with all passes and once with none that costs anything."""
    exact = sample_graphlets(variety, per_shape=0, seed=1).totals
    monkeypatch.setattr(choose_method, "EXACT_SECONDS", -1.0)
    monkeypatch.setattr(sample, "pilot", functools.partial(pilot, draws=2000))
    monkeypatch.setattr(choose_method, "BLIND_SECONDS", 0.004)
    scores = []
    for seed in range(8):
        drawn = sample_graphlets(variety, per_shape=10, seed=seed)
        assert drawn.plan.method == "structure"
        assert "estimates" in drawn.plan.text
        for shape in SHAPES:
            if drawn.errors[shape] > 3:  # rounding to whole graphlets does not matter
                scores.append((drawn.totals[shape] - exact[shape]) / drawn.errors[shape])
            elif not drawn.errors[shape]:
                assert drawn.totals[shape] == exact[shape]
    assert len(scores) > 60
    assert np.max(np.abs(scores)) < 5
    assert 0.7 < np.std(scores) < 1.3


def test_small_graphs_are_enumerated_and_graphs_with_hubs_drawn_on(monkeypatch):
    csr = graph_of(400, {(hub, leaf) for hub in range(3) for leaf in range(3, 400)})
    small = sample_graphlets(csr, per_shape=20, seed=1)
    assert small.plan.method == "enumerate"
    assert "by rank" in small.plan.text
    for module in (choose_method, sample):
        monkeypatch.setattr(module, "SHORT_SECONDS", 0.0)
    drawn = sample_graphlets(csr, per_shape=20, seed=1)
    assert drawn.plan.method == "structure"
    assert {s for s, n in drawn.sampled().items() if n} == {s for s, n in drawn.totals.items() if n}


@pytest.mark.parametrize("method", METHODS)
def test_the_plan_is_announced_before_the_work_and_is_the_one_that_is_recorded(monkeypatch, method):
    csr = graph_of(60, {(hub, leaf) for hub in range(3) for leaf in range(3, 60)})
    announced = []
    work = "enumerate_sample" if method == "enumerate" else "draw_samples"
    original = getattr(sample, work)

    def watched(*arguments, **options):
        assert len(announced) == 1
        return original(*arguments, **options)

    monkeypatch.setattr(sample, work, watched)
    drawn = sample_graphlets(csr, per_shape=20, seed=1, method=method, announce=announced.append)
    (plan_before,) = announced
    assert plan_before.text == drawn.plan.text
    assert plan_before.core_seconds == drawn.plan.core_seconds > 0


def test_a_cap_per_node_holds_over_all_shapes_together():
    edges = {(0, leaf) for leaf in range(1, 60)} | {(a, a + 1) for a in range(1, 59)}
    csr = graph_of(60, edges | {(a, a + 7) for a in range(1, 50, 3)})
    for cap in (1, 10, 60):
        drawn = sample_graphlets(csr, per_shape=30, seed=3, max_per_node=cap)
        load = np.bincount(drawn.nodes[drawn.nodes >= 0], minlength=60)
        assert load.max() <= cap
        assert len(drawn) > 0
        assert len(set(rows_of(drawn))) == len(drawn)
        assert f"no node stands in more than {cap}" in drawn.plan.text
    plain = sample_graphlets(csr, per_shape=30, seed=3, max_per_node=10**6)
    assert (plain.weight == 1.0).all()


def test_samples_of_a_clique_are_found_by_either_method():
    for method in METHODS:
        drawn = sample_graphlets(clique_of(60), per_shape=100, seed=1, method=method)
        assert {s: k for s, k in drawn.sampled().items() if k} == {2: 100, 8: 100, 29: 100}
        assert len(set(rows_of(drawn))) == 300


@pytest.fixture(scope="module")
def drawn(small_graphs):
    return sample_graphlets(small_graphs["medium"], per_shape=20, seed=1)


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
    picture = shapes_png(drawn)
    assert picture.startswith(b"\x89PNG")
    assert min(struct.unpack(">II", picture[16:24])) > 800  # width and height
    assert shapes_png(drawn) == picture


def test_the_layout_of_every_shape_is_legible():
    for shape in SHAPES.values():
        at = few_nodes(shape.edges)
        apart = np.linalg.norm(at[:, None] - at[None], axis=2)[np.triu_indices(shape.k, 1)]
        assert apart.min() > 0.25
        assert crossings(at, shape.edges) <= (5 if shape.id == 29 else 1)
