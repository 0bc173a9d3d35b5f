"""Random numbers: reproducible for ever, uniform, without replacement."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from kgqa_hpc.graphlets.splitmix import distinct_ranks, key_of, mix


def test_mix_is_the_published_splitmix64():
    # First outputs of the reference implementation seeded with 1234567 (Vigna's splitmix64.c).
    states = np.uint64(1234567) + np.arange(3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert mix(states).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_keys_depend_on_every_part_and_on_the_order():
    keys = {key_of(1, 2), key_of(2, 1), key_of(1, 2, 0), key_of(1), key_of(2**63 - 1, 2)}
    assert len(keys) == 5


@pytest.mark.parametrize(
    ("total", "size"), [(0, 5), (5, 5), (6, 5), (19, 5), (20, 5), (10**4, 10**3), (2**62, 1000)]
)
def test_ranks_are_distinct_sorted_and_in_range(total, size):
    ranks = distinct_ranks(total, size, 7, 3)
    assert len(ranks) == min(total, size)
    assert (np.diff(ranks) > 0).all()
    assert len(ranks) == 0 or (ranks[0] >= 0 and ranks[-1] < total)
    assert (distinct_ranks(total, size, 7, 3) == ranks).all()


def test_too_many_ranks_are_refused():
    with pytest.raises(OverflowError):
        distinct_ranks(2**62 + 1, 10, 0)


@pytest.mark.parametrize(("total", "size"), [(12, 5), (30, 5)])  # dense and sparse
def test_every_rank_is_equally_likely(total, size):
    seeds = 4000
    hits = np.zeros(total)
    for seed in range(seeds):
        hits[distinct_ranks(total, size, seed)] += 1
    share = size / total
    # Draws without replacement: variance per cell share (1 - share), cells correlated by -1 / (total - 1).
    statistic = ((hits - seeds * share) ** 2).sum() / (seeds * share * (1 - share)) * (total - 1) / total
    assert stats.chi2.sf(statistic, total - 1) > 1e-3
