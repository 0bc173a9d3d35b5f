"""Synthetic graphs for benchmarks: a twin of a published knowledge graph, and a graph of ten million edges with hubs.

Only structure, no names: (indptr int64 (n+1,), indices int32 (2m,)), as all of graphlets takes it. Both are
pure functions of their arguments for ever (SplitMix64, no numpy generator) and both are ours.
"""

from dataclasses import dataclass

import numpy as np

from kgqa_hpc.graphlets.kernels.choices import key_of, mix
from kgqa_hpc.kg.graph import simple_csr
from kgqa_hpc.kg.relations import Csr

# Occurrences of path, fork and star on five nodes in OREGANO reduced: 93.4 % of those on five nodes, 91.0 % of all
# (BioGraphletQA, Table 1).
PUBLISHED = {9: 1_080_297_928, 10: 1_810_874_588, 11: 584_613_716}


@dataclass(frozen=True)
class Recipe:
    """Parameters of the twin; the numbers were fitted to `PUBLISHED`, and to the size of the graph.

    Two sides, as drugs and what they act on or cause. `loose` edges join them at random in proportion to
    power-law weights (`exponents`, up to `largest`). `families` of about `members` of the first side draw
    their neighbours with chance `shared` from a common pool of about `pool` of the second side: squares and
    K2,3. `stray` edges join any two nodes, `cliques` of given
    sizes bring the few triangles (two large ones hold nearly all 44,022 cliques of five).
    """

    nodes: int = 45_000
    first_side: float = 0.3
    loose: int = 80_000
    exponents: tuple[float, float] = (2.25, 2.3)
    smallest: tuple[float, float] = (2.0, 1.5)
    largest: float = 51.5
    families: int = 130
    members: float = 9.9
    pool: float = 56.0
    shared: float = 0.75
    stray: int = 3_000
    cliques: tuple[int, ...] = (24, 13, *[3] * 1000)
    hubs: float = 100.0  # nodes expected above this degree are thinned to it


def oregano_twin(seed: int = 1, recipe: Recipe | None = None) -> Csr:
    """A graph with about the graphlet counts of reduced OREGANO (which may not be shipped): few hubs, hardly any
    triangles, many squares.

    About 40,000 nodes, 130,000 edges, degrees up to about 110, and within some per cent the totals of
    `PUBLISHED`.
    """
    r = recipe or Recipe()
    first = int(r.nodes * r.first_side)
    sides = (first, r.nodes - first)
    weights = [
        np.cumsum(_power_law(_uniform(n, seed, 1, side), r.smallest[side], r.largest, r.exponents[side]))
        for side, n in enumerate(sides)
    ]
    pieces = [
        (_by_weight(weights[0], r.loose, seed, 2), first + _by_weight(weights[1], r.loose, seed, 3)),
        (_any(r.nodes, r.stray, seed, 4), _any(r.nodes, r.stray, seed, 5)),
    ]
    for number in range(r.families):
        members, pool = (
            int(mean * (0.5 + luck))
            for mean, luck in zip((r.members, r.pool), _uniform(2, seed, 6, number), strict=True)
        )
        known = _by_weight(weights[1], pool, seed, 7, number)
        chosen = np.flatnonzero(_uniform(members * pool, seed, 8, number) < r.shared)
        member, place = np.divmod(chosen, pool)
        pieces.append((_any(first, members, seed, 9, number)[member], first + known[place]))
    for number, size in enumerate(r.cliques):
        corners = _any(r.nodes, size, seed, 10, number)
        i, j = np.triu_indices(size, 1)
        pieces.append((corners[i], corners[j]))
    source, target = _distinct(r.nodes, *map(np.concatenate, zip(*pieces, strict=True)))
    degree = np.bincount(np.concatenate([source, target]), minlength=r.nodes)
    chance = np.minimum(r.hubs / degree[source], r.hubs / degree[target])
    keep = _uniform(len(source), seed, 11) < chance
    return _without_isolated(r.nodes, source[keep], target[keep])


def hub_graph(seed: int = 1, *, nodes: int = 1_000_000, draws: int = 9_870_000) -> Csr:
    """A graph as large knowledge graphs are, hubs and all: by default 9.8 million edges, degrees up to
    16,000, some 1e17 occurrences.

    `draws` edges whose ends are chosen independently in proportion to (rank + 19)^-0.75 (Chung, Lu 2002),
    loops and repeated edges left out. Everything shrinks together with `nodes` and `draws`.
    """
    power, offset = 0.25, 19.0 * nodes / 1_000_000
    low, high = offset**power, (nodes + offset) ** power
    ends = (
        ((low + (high - low) * _uniform(draws, seed, 20 + side)) ** (1 / power) - offset).astype(np.int64)
        for side in (0, 1)
    )
    source, target = (np.clip(end, 0, nodes - 1) for end in ends)
    return simple_csr(nodes, source, target)


def _uniform(count: int, *key: int) -> np.ndarray:
    """`count` numbers of [0, 1), float64."""
    words = mix(mix(np.arange(count, dtype=np.uint64)) ^ np.uint64(key_of(*key)))
    return (words >> np.uint64(11)).astype(np.float64) / 2**53


def _any(nodes: int, count: int, *key: int) -> np.ndarray:
    return (_uniform(count, *key) * nodes).astype(np.int64)


def _by_weight(cumulative: np.ndarray, count: int, *key: int) -> np.ndarray:
    return np.searchsorted(cumulative, _uniform(count, *key) * cumulative[-1], side="right")


def _power_law(luck: np.ndarray, low: float, high: float, exponent: float) -> np.ndarray:
    """Pareto numbers of [low, high) by inversion."""
    a = 1 - exponent
    return (low**a + (high**a - low**a) * luck) ** (1 / a)


def _distinct(nodes: int, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    keep = source != target
    keys = np.minimum(source, target)[keep] * nodes + np.maximum(source, target)[keep]
    keys.sort()
    if len(keys):
        keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    return np.divmod(keys, nodes) if nodes else (keys, keys)


def _without_isolated(nodes: int, source: np.ndarray, target: np.ndarray) -> Csr:
    used = np.bincount(np.concatenate([source, target]), minlength=nodes) > 0
    number = np.cumsum(used) - 1
    return simple_csr(int(used.sum()), number[source], number[target])
