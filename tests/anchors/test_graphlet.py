"""Sampled graphlets become anchors: template labelling, real relations, ids by content, a fair order."""

import itertools

import numpy as np
import pytest
from scipy import stats

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.anchors.graphlet import graphlet_anchors
from kgqa_hpc.graphlets.sample import sample_graphlets
from kgqa_hpc.graphlets.shapes import SHAPES
from kgqa_hpc.kg.graph import KnowledgeGraph


def knowledge_graph(n=30, p=0.25, seed=3, order=None):
    """Random typed, directed edges with parallel ones and loops; nodes may be put in another order."""
    rng = np.random.default_rng(seed)
    edges = [(a, b) for a, b in itertools.permutations(range(n), 2) if rng.random() < p / 2]
    edges += [*edges[:20], (3, 3)]
    kinds = rng.integers(0, 3, len(edges))
    order = np.arange(n) if order is None else order
    place = np.argsort(order)
    source, target = np.array(edges).T
    return KnowledgeGraph(
        node_ids=np.array([f"N:{i}" for i in order], object),
        names=np.array([f"name {i}" for i in order], object),
        node_type=np.array([i % 4 for i in order], np.int32),
        node_types=("gene", "drug", "disease", "symptom"),
        edge_source=place[source].astype(np.int32),
        edge_target=place[target].astype(np.int32),
        edge_type=kinds.astype(np.int32),
        edge_types=("treats", "causes", "is near"),
    )


@pytest.fixture(scope="module")
def graph():
    return knowledge_graph()


@pytest.fixture(scope="module")
def drawn(graph):
    return sample_graphlets(graph, per_shape=40, seed=7)


@pytest.fixture(scope="module")
def anchors(graph, drawn):
    return list(graphlet_anchors(graph, drawn, seed=7))


def test_every_sampled_graphlet_is_one_anchor(drawn, anchors):
    assert len(anchors) == len(drawn)
    assert len({anchor.id for anchor in anchors}) == len(anchors)
    assert {anchor.kind for anchor in anchors} == {"graphlet"}
    assert [Anchor.from_dict(anchor.to_dict()) for anchor in anchors] == anchors


def test_relations_stand_where_the_published_template_has_its_edges(anchors):
    """That they are those of the graph is held by tests/steps/test_edges_in_prompts.py."""
    for anchor in anchors:
        template = {frozenset(edge) for edge in SHAPES[anchor.data["shape"]].edges}
        assert {frozenset((r.source, r.target)) for r in anchor.relations} == template


def test_ids_and_labelling_depend_on_content_not_on_the_order_of_the_graph(graph):
    """The same graphlets have the same ids in a graph whose nodes stand in another order."""
    shuffled = knowledge_graph(order=np.random.default_rng(1).permutation(30))
    ids = []
    for g in (graph, shuffled):
        drawn = sample_graphlets(g, per_shape=10**6, seed=7, shapes=[2, 7, 20])
        ids.append({a.id: frozenset(n.id for n in a.nodes) for a in graphlet_anchors(g, drawn, seed=7)})
    assert ids[0] == ids[1]
    assert all(anchor_id.startswith(("g02-", "g07-", "g20-")) for anchor_id in ids[0])


def test_the_order_depends_on_the_seed_and_is_reproducible(graph, drawn):
    orders = [[a.id for a in graphlet_anchors(graph, drawn, seed=seed)] for seed in (1, 1, 2)]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])


def test_any_prefix_is_a_fair_sample(graph, drawn):
    """Over many seeds each shape has its share of the first hundred anchors."""
    sizes = np.array([drawn.sampled()[shape] for shape in SHAPES])
    hits = np.zeros(len(SHAPES))
    for seed in range(40):
        first = itertools.islice(graphlet_anchors(graph, drawn, seed=seed), 100)
        hits += np.bincount([anchor.data["shape"] for anchor in first], minlength=30)[1:]
    present = sizes > 0
    assert stats.chisquare(hits[present], sizes[present] / sizes.sum() * hits.sum()).pvalue > 1e-4
