"""Balanced samples: hubs are held back, types are spread, and the weights undo both."""

import numpy as np
import pytest

from kgqa_hpc.graphlets.balance import cap_nodes, spread_types

KIND = np.where(np.arange(6000) < 4, 0, np.where(np.arange(6000) < 500, 1, 2))  # hub, leaf, other


@pytest.fixture(scope="module")
def population():
    """All occurrences of one shape: the first node is a hub in four of five; `value` is to be averaged."""
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
        kept = balanced(np.full(pool, 1, np.int16), nodes[rows], np.arange(pool))
        chosen = value[rows[kept.rows]]
        plain.append(chosen.mean())
        weighted.append((chosen * kept.weight).sum() / kept.weight.sum())
    return np.array(plain), np.array(weighted)


@pytest.mark.parametrize(
    ("balanced", "bias", "slack"),
    [
        (lambda s, n, p: cap_nodes(s, n, p, 100, 8), 3, 0.02),
        (lambda s, n, p: spread_types(s, n, p, 100, KIND), 2, 1e-9),
    ],
    ids=["cap", "spread"],
)
def test_weights_undo_the_balance(population, balanced, bias, slack):
    truth = population[1].mean()
    plain, weighted = weighted_means(population, balanced)
    assert abs(plain.mean() - truth) > bias  # without weights the balance shows
    assert abs(weighted.mean() - truth) < 4 * weighted.std() / np.sqrt(len(weighted)) + slack * abs(truth)


def test_a_spread_sample_is_even_over_type_signatures(population):
    nodes = population[0][:4000]
    kept = spread_types(np.full(4000, 3, np.int16), nodes, np.arange(4000), 100, KIND)
    assert np.bincount(KIND[nodes[kept.rows, 0]]).tolist() == [50, 50]


def test_small_groups_give_what_they_have():
    nodes = np.full((100, 5), -1, np.int32)
    nodes[:, :3] = np.arange(300).reshape(100, 3)
    kind = np.zeros(300, np.int64)
    kind[:9] = 1  # three graphlets of another signature
    kept = spread_types(np.ones(100, np.int16), nodes, np.arange(100), 40, kind)
    assert len(kept.rows) == 40
    assert set(range(3)) <= set(kept.rows.tolist())
    assert kept.weight[:3] == pytest.approx(0.4)
    assert kept.weight.sum() == pytest.approx(40)


def test_what_is_kept_depends_on_content_not_on_order(population):
    draw = np.random.default_rng(7)
    shape = np.repeat([2, 3, 11], [1200, 30, 1200]).astype(np.int16)
    position = np.concatenate([draw.permutation(1200), draw.permutation(30), draw.permutation(1200)])
    nodes = population[0][: len(shape)]
    kept = cap_nodes(shape, nodes, position, 100, 6)
    shuffled = np.random.default_rng(1).permutation(len(shape))
    again = cap_nodes(shape[shuffled], nodes[shuffled], position[shuffled], 100, 6)
    assert sorted(kept.rows.tolist()) == sorted(shuffled[again.rows].tolist())
