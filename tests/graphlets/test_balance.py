"""Balanced samples: hubs are held back, types are spread, and the weights undo both."""

from __future__ import annotations

import numpy as np
import pytest

from kgqa_hpc.graphlets import balance
from kgqa_hpc.graphlets.balance import cap_nodes, spread_types


@pytest.fixture(scope="module")
def population():
    """All occurrences of one shape: the first node is a hub in four of five, `value` is something to
    average.
    """
    rng = np.random.default_rng(5)
    size = 20_000
    nodes = np.full((size, 5), -1, np.int32)
    hub = rng.random(size) < 0.8
    nodes[:, 0] = np.where(hub, rng.integers(0, 4, size), rng.integers(4, 500, size))
    nodes[:, 1] = rng.integers(500, 3000, size)
    nodes[:, 2] = rng.integers(3000, 6000, size)
    value = np.where(hub, 10.0, 0.0) + rng.normal(size=size)
    return nodes, value


def weighted_means(population, balanced, seeds=300, pool=800):
    """(mean of the values, weighted mean) of a balanced sample from a fresh uniform pool, for each seed."""
    nodes, value = population
    plain, weighted = [], []
    for seed in range(seeds):
        rows = np.random.default_rng(seed).choice(len(nodes), pool, replace=False)
        kept = balanced(np.full(pool, 1, np.int16), nodes[rows], seed)
        chosen = value[rows[kept.rows]]
        plain.append(chosen.mean())
        weighted.append((chosen * kept.weight).sum() / kept.weight.sum())
    return np.array(plain), np.array(weighted)


def test_weights_of_a_capped_sample_undo_the_cap(population):
    truth = population[1].mean()
    plain, weighted = weighted_means(population, lambda s, n, seed: cap_nodes(s, n, 100, 8, seed))
    error = weighted.std() / np.sqrt(len(weighted))
    assert abs(plain.mean() - truth) > 3  # without weights the balance shows
    assert abs(weighted.mean() - truth) < 4 * error + 0.02 * abs(truth)


def test_weights_of_a_spread_sample_undo_the_spread(population):
    truth = population[1].mean()
    kind = np.where(np.arange(6000) < 4, 0, np.where(np.arange(6000) < 500, 1, 2))
    plain, weighted = weighted_means(population, lambda s, n, seed: spread_types(s, n, 100, kind, seed))
    assert abs(plain.mean() - truth) > 2
    assert abs(weighted.mean() - truth) < 4 * weighted.std() / np.sqrt(len(weighted)) + 1e-9


def test_a_spread_sample_is_even_over_type_signatures(population):
    nodes = population[0][:4000]
    kind = np.where(np.arange(6000) < 4, 0, np.where(np.arange(6000) < 500, 1, 2))
    kept = spread_types(np.full(4000, 3, np.int16), nodes, 100, kind, seed=1)
    assert np.bincount(kind[nodes[kept.rows, 0]]).tolist() == [50, 50]


def test_small_groups_give_what_they_have():
    nodes = np.full((100, 5), -1, np.int32)
    nodes[:, :3] = np.arange(300).reshape(100, 3)
    kind = np.zeros(300, np.int64)
    kind[:9] = 1  # three graphlets of another signature
    kept = spread_types(np.ones(100, np.int16), nodes, 40, kind, seed=1)
    assert len(kept.rows) == 40
    assert set(range(3)) <= set(kept.rows.tolist())
    assert kept.weight[:3] == pytest.approx(0.4)
    assert kept.weight.sum() == pytest.approx(40)


def test_the_cap_holds_even_when_factors_do_not_settle(population, monkeypatch):
    monkeypatch.setattr(balance, "_ROUNDS", 1)
    nodes = population[0][:2000]
    kept = cap_nodes(np.ones(2000, np.int16), nodes, 500, 5, seed=1)
    load = np.bincount(nodes[kept.rows][nodes[kept.rows] >= 0])
    assert 0 < load.max() <= 5


def test_what_is_kept_depends_on_content_not_on_order(population):
    nodes = population[0][:1000]
    shape = np.ones(1000, np.int16)
    kept = cap_nodes(shape, nodes, 200, 12, seed=3)
    shuffled = np.random.default_rng(1).permutation(1000)
    again = cap_nodes(shape, nodes[shuffled], 200, 12, seed=3)
    assert sorted(nodes[kept.rows].tolist()) == sorted(nodes[shuffled][again.rows].tolist())
