"""Simple paths: counted exactly, drawn uniformly, bounded where they are not counted."""

import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
from scipy.stats import chisquare

from kgqa_hpc.anchors import simple_paths
from kgqa_hpc.anchors.anchor import Source
from kgqa_hpc.anchors.routes import Routes
from kgqa_hpc.anchors.simple_paths import PathSpace
from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.graph import KnowledgeGraph, simple_csr
from tests.families.conftest import random_graph

PATTERNS = [(None, None, "either"), (["drug", None, "disease", "gene", None], None, "either")]
PATTERNS += [(None, ["hits", None, "causes", "hits"], "either"), (None, None, "forward")]


def brute(
    graph: KnowledgeGraph, length: int, pattern: list, relations: list, direction: str
) -> Iterator[tuple]:
    """Every simple path, by walking."""
    steps = set()
    for source, kind, target in zip(graph.edge_source, graph.edge_type, graph.edge_target, strict=True):
        steps.add((int(source), graph.edge_types[kind], int(target)))
        if direction == "either":
            steps.add((int(target), graph.edge_types[kind], int(source)))

    def fits(node: int, at: int) -> bool:
        return not pattern or pattern[at] in (None, graph.node(node).type)

    def go(path: tuple) -> Iterator[tuple]:
        at = len(path) - 1
        if at == length:
            yield path
            return
        wanted = relations[at] if relations else None
        for other in sorted({t for s, k, t in steps if s == path[-1] and wanted in (None, k)}):
            if other not in path and fits(other, at + 1):
                yield from go((*path, other))

    for node in range(graph.num_nodes):
        if fits(node, 0):
            yield from go((node,))


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_paths_of_up_to_four_edges_are_counted_exactly(seed: int, length: int, pattern: tuple) -> None:
    graph = random_graph(seed, 14, 45)
    types, relations, direction = pattern
    types, relations = types and types[: length + 1], relations and relations[:length]
    space = Routes(Source(graph)).space(length, types, relations, direction)
    number = len(list(brute(graph, length, types, relations, direction)))
    assert space.total() == (number, number)


@pytest.mark.parametrize(
    ("length", "pattern"), [(2, PATTERNS[0]), (3, PATTERNS[1]), (4, PATTERNS[0]), (5, PATTERNS[3])]
)
def test_every_simple_path_is_drawn_equally_often(length: int, pattern: tuple) -> None:
    graph = random_graph(5, 11, 22)
    types, relations, direction = pattern
    types = types and types[: length + 1]
    paths = list(brute(graph, length, types, relations, direction))
    space = Routes(Source(graph)).space(length, types, relations, direction)
    times = Counter(islice(space.draws(7), 30 * len(paths)))
    assert set(times) == set(paths)
    assert chisquare([times[path] for path in paths]).pvalue > 0.001


def test_longer_paths_are_counted_with_an_interval_that_holds_the_number() -> None:
    graph = random_graph(6, 12, 30)
    space = Routes(Source(graph)).space(6)
    list(islice(space.draws(1), 2000))
    (low, high), number = space.total(), len(list(brute(graph, 6, [], [], "either")))
    assert low <= number <= high
    assert 0 < (high - low) / number < 0.2


def test_weights_beyond_64_bits_stay_exact() -> None:
    size = 60
    ends = np.arange(size, dtype=np.int32)
    layer = simple_csr(size, np.repeat(ends, size), np.tile(ends, size), directed=True)
    space = PathSpace([layer] * 14)
    assert space.walks == size * (size - 1) ** 14
    assert space.walks > 2**64
    assert all(len(set(path)) == 15 for path in islice(space.draws(3), 20))


def test_a_graph_without_a_path_gives_none(films: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simple_paths, "TRIES", 1000)
    space = Routes(Source(films)).space(2, ["director", "film", "director"])
    assert space.total() == (0, 0)
    assert list(space.draws(1)) == []


def test_a_type_the_graph_has_not_is_refused_with_the_nearest_one(films: KnowledgeGraph) -> None:
    with pytest.raises(InputError, match="no node type 'actr', did you mean actor"):
        Routes(Source(films)).space(1, ["actr", "film"])


def test_the_count_of_100_000_edges_agrees_with_the_share_of_walks_that_are_simple() -> None:
    space = Routes(Source(random_graph(8, 20_000, 100_000))).space(4)
    begin = time.process_time()
    total, high = space.total()
    print(f"counted in {time.process_time() - begin:.1f} s, compilation included")
    list(islice(space.draws(1), 3000))
    assert total == high
    assert abs(total / space.walks - space.kept / space.tried) < 0.04  # five standard deviations
