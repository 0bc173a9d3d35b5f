"""Balanced sampling as a user asks for it: by the configuration, with the weights in the run's anchors."""

import collections
import random

import pytest

from kgqa_hpc import stages
from kgqa_hpc.store.shards import AnchorsFile
from tests.project import write_tables

HUBS = 2


@pytest.fixture
def sampled(tmp_path):
    """sampled(anchors section) -> the anchors of a run on a graph with two hubs, a drug in ten nodes."""
    draw = random.Random(3)
    rows = [[f"N:{i}", f"entity {i}", "drug" if i % 10 == 9 else "gene"] for i in range(90)]
    pairs = {(hub, leaf) for hub in range(HUBS) for leaf in range(HUBS, 80)}
    pairs |= {(a, b) for a, b in (sorted(draw.sample(range(90), 2)) for _ in range(150)) if a != b}
    write_tables(tmp_path, sorted(rows), sorted((f"N:{a}", f"N:{b}", "x") for a, b in pairs))

    def sample(section):
        graph = "{source: csv, nodes: nodes.csv, edges: edges.csv, min_degree: 1}"
        text = f"seed: 5\ngraph: {graph}\nanchors: {section}\nengine: {{kind: scripted}}\n"
        (tmp_path / "run.yaml").write_text(text, encoding="utf-8")
        run = stages.init(tmp_path / "run.yaml", tmp_path / f"run{len(list(tmp_path.iterdir()))}")
        stages.import_graph(run.path)
        told = str(stages.sample(run.path))
        with AnchorsFile(run.anchors) as anchors:
            return list(anchors.rows()), told

    return sample


def signatures(rows, shape):
    nodes = (row["nodes"] for row in rows if row["data"]["shape"] == shape)
    return collections.Counter(tuple(sorted(kind for _, _, kind in row)) for row in nodes)


def test_a_spread_over_types_is_even_and_its_weights_are_in_the_anchors(sampled):
    plain, _ = sampled("{per_shape: 40, shapes: [1, 4]}")
    assert {row["weight"] for row in plain} == {1.0}
    rows, told = sampled("{per_shape: 40, shapes: [1, 4], spread: types}")
    assert "each shape is spread over the types of its nodes" in told
    for shape in (1, 4):
        assert sum(row["data"]["shape"] == shape for row in rows) == 40
        common = ("gene",) * (3 if shape == 1 else 4)
        assert signatures(rows, shape)[common] < 0.8 * signatures(plain, shape)[common]
        assert max(signatures(rows, shape).values()) <= 20
        weights = {row["weight"] for row in rows if row["data"]["shape"] == shape}
        assert min(weights) < 1 < max(weights)
        assert sum(row["weight"] for row in rows if row["data"]["shape"] == shape) == pytest.approx(40)


def test_a_cap_per_node_holds_and_its_weights_are_in_the_anchors(sampled):
    rows, told = sampled("{per_shape: 40, max_per_node: 25}")
    load = collections.Counter(node for row in rows for node, _, _ in row["nodes"])
    assert max(load.values()) <= 25
    assert "no node stands in more than 25" in told
    assert len({row["weight"] for row in rows}) > 5
