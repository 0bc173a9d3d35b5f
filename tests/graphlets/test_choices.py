"""Random numbers: reproducible for ever, uniform, without replacement."""

import numpy as np
import pytest
from scipy import stats

from kgqa_hpc.graphlets.kernels.choices import key_of, mix, rank_sequence


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
def test_ranks_are_distinct_in_range_and_the_same_again(total, size):
    ranks = rank_sequence(total, size, 7, 3)
    assert len(set(ranks.tolist())) == len(ranks) == min(total, size)
    assert len(ranks) == 0 or (ranks.min() >= 0 and ranks.max() < total)
    assert (rank_sequence(total, size, 7, 3) == ranks).all()


@pytest.mark.parametrize("total", [1, 2, 7, 100, 10**4, 2**62])
def test_fewer_ranks_are_the_beginning_of_more(total):
    most = rank_sequence(total, 10**4, 7, 3).tolist()
    for size in (0, 1, 3, 4, 49, 50, 51, 99, 100, 4999, 5001, 9999):
        assert rank_sequence(total, size, 7, 3).tolist() == most[:size]


def test_too_many_ranks_are_refused():
    with pytest.raises(OverflowError):
        rank_sequence(2**62 + 1, 10, 0)


@pytest.mark.parametrize(("total", "size"), [(12, 8), (12, 5), (30, 5)])  # both halves, and one
def test_every_rank_is_equally_likely(total, size):
    seeds = 4000
    hits = np.zeros(total)
    for seed in range(seeds):
        hits[rank_sequence(total, size, seed)] += 1
    share = size / total
    # Draws without replacement: variance per cell share (1 - share), cells correlated by -1 / (total - 1).
    statistic = ((hits - seeds * share) ** 2).sum() / (seeds * share * (1 - share)) * (total - 1) / total
    assert stats.chi2.sf(statistic, total - 1) > 1e-3


def test_every_order_is_equally_likely():
    seen = [tuple(rank_sequence(4, 4, seed).tolist()) for seed in range(6000)]
    counts = np.unique(seen, axis=0, return_counts=True)[1]
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 1e-3
