"""Graphlets as anchors: sampled occurrences with the names, types and relations their nodes have in the
graph.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.graphlets.shapes import SHAPES
from kgqa_hpc.graphlets.splitmix import key_of, mix

if TYPE_CHECKING:
    from kgqa_hpc.graphlets.sample import GraphletSample
    from kgqa_hpc.kg.graph import KnowledgeGraph

KIND = "graphlet"


def graphlet_anchors(graph: KnowledgeGraph, sample: GraphletSample, seed: int) -> Iterator[Anchor]:
    """The sampled graphlets as anchors, in a shuffled order that depends on `seed` and on each graphlet's
    content.

    Any prefix of the order is a fair sample of the whole, so work that is stopped early is not lopsided.
    `sample.nodes` are node numbers of `graph`. Nodes stand in the order of the shape's template, `edges`
    are the template's, `relations` all typed edges among the nodes as they stand in the graph.
    """
    digests = np.array([_digest(graph, *row) for row in _rows(sample)], np.uint64)
    order = np.lexsort((digests, mix(digests ^ np.uint64(key_of(seed)))))
    all_relations = graph.relations_for(sample.nodes[order])
    for i, relations in zip(order.tolist(), all_relations, strict=True):
        shape = SHAPES[int(sample.shape[i])]
        yield Anchor(
            id=f"g{shape.id:02d}-{int(digests[i]):016x}",
            kind=KIND,
            shape=shape.id,
            nodes=tuple(graph.node(node) for node in sample.nodes[i, : shape.k].tolist()),
            edges=shape.edges,
            relations=relations,
            weight=float(sample.weight[i]),
        )


def _rows(sample: GraphletSample) -> Iterator[tuple[int, list[int]]]:
    for shape, nodes in zip(sample.shape.tolist(), sample.nodes.tolist(), strict=True):
        yield shape, nodes[: SHAPES[shape].k]


def _digest(graph: KnowledgeGraph, shape: int, nodes: list[int]) -> int:
    """64 bits that depend on the kind, the shape and the set of node ids, and on nothing else."""
    content = json.dumps(
        [KIND, shape, *sorted(str(graph.node_ids[node]) for node in nodes)], ensure_ascii=False
    )
    return int.from_bytes(hashlib.blake2b(content.encode(), digest_size=8).digest(), "big")
