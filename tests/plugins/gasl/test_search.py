"""Paths, walks, patterns and parts of random graphs are those that brute force finds, in the stated order."""

import random
from collections.abc import Callable
from itertools import pairwise, permutations, product
from typing import Any

import networkx as nx
import pytest

from kgqa_hpc.plugins.gasl.execute import Result
from kgqa_hpc.plugins.gasl.graph import PropertyGraph

Edge = tuple[str, str, str]
Run = Callable[..., Result]
GraphOf = Callable[..., PropertyGraph]


def random_graph(seed: int, graph_of: GraphOf) -> tuple[list[str], list[Edge], PropertyGraph]:
    """Seven nodes in an order that is not the alphabet's, with parallel edges and loops."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    nodes = [f"n{k}" for k in chance.sample(range(7), 7)]
    edges = [(chance.choice(nodes), chance.choice(nodes), chance.choice("ab")) for _ in range(14)]
    rows = [f"{node},{node},{'odd' if int(node[1]) % 2 else 'even'}" for node in nodes]
    links = [",".join(edge) for edge in edges]
    return nodes, edges, graph_of(["id,name,type", *rows], ["source_id,target_id,type", *links])


def choices(edges: list[Edge], first: str, last: str, direction: str) -> list[int]:
    """Positions of the edges that lead from one node to another."""
    return [
        place
        for place, (source, target, _) in enumerate(edges)
        if (direction != "in" and (source, target) == (first, last))
        or (direction != "out" and (source, target) == (last, first))
    ]


def all_paths(nodes: list[str], edges: list[Edge], length: int, direction: str) -> list[tuple[Any, ...]]:
    """Nodes and types of every simple path of a length, by positions of nodes, then of edges."""
    found = []
    for path in permutations(range(len(nodes)), length + 1):
        names = [nodes[place] for place in path]
        steps = [choices(edges, a, b, direction) for a, b in pairwise(names)]
        found += [(path, taken, names, [edges[e][2] for e in taken]) for taken in product(*steps)]
    return [(names, types) for _, _, names, types in sorted(found)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("direction", ["out", "in", "both"])
def test_all_simple_paths_come_in_order(seed: int, direction: str, graph_of: GraphOf, run: Run) -> None:
    nodes, edges, graph = random_graph(seed, graph_of)
    result = run(f"FIND paths DIRECTION {direction} DEPTH 3 AS p", graph)
    expected = [path for length in (1, 2, 3) for path in all_paths(nodes, edges, length, direction)]
    assert [(p["nodes"], p["relations"]) for p in result.variables["p"]] == expected


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("direction", ["out", "in", "both"])
def test_all_shortest_paths_come_in_order(seed: int, direction: str, graph_of: GraphOf, run: Run) -> None:
    nodes, edges, graph = random_graph(seed, graph_of)
    script = f"FIND nodes AS n; RANK n BY id AS m; GRAPHCONNECT m TO n DIRECTION {direction} DEPTH 3 AS p"
    expected = []
    for first in sorted(nodes, reverse=True):
        for last in nodes:
            found = (all_paths(nodes, edges, length, direction) for length in (1, 2, 3))
            between = ([p for p in paths if (p[0][0], p[0][-1]) == (first, last)] for paths in found)
            expected += next(filter(None, between), []) if first != last else []
    assert [(p["nodes"], p["relations"]) for p in run(script, graph).variables["p"]] == expected


@pytest.mark.parametrize("seed", range(6))
def test_a_pattern_matches_what_brute_force_matches(seed: int, graph_of: GraphOf, run: Run) -> None:
    nodes, edges, graph = random_graph(seed, graph_of)
    result = run("GRAPHPATTERN (even)-[a]->(x:)<-[b]-(even) AS p", graph)
    expected = []
    for a, b, c in permutations(range(len(nodes)), 3):
        if int(nodes[a][1]) % 2 or int(nodes[c][1]) % 2:
            continue
        first = [e for e in choices(edges, nodes[a], nodes[b], "out") if edges[e][2] == "a"]
        second = [e for e in choices(edges, nodes[b], nodes[c], "in") if edges[e][2] == "b"]
        expected += [(nodes[a], nodes[b], nodes[c])] * (len(first) * len(second))
    got = [(p["even"]["id"], p["x"]["id"], p["even_1"]["id"]) for p in result.variables["p"]]
    assert got == expected
    assert all(p["relations"] == ["a", "b"] for p in result.variables["p"])


@pytest.mark.parametrize("seed", range(6))
def test_walks_subgraphs_and_clusters_agree_with_networkx(seed: int, graph_of: GraphOf, run: Run) -> None:
    nodes, edges, graph = random_graph(seed, graph_of)
    script = (
        f"FIND nodes WITH id={nodes[0]} AS v; FIND nodes AS n\n"
        "GRAPHWALK FROM v FOLLOW a DIRECTION out DEPTH 2 AS w; SUBGRAPH AROUND v RADIUS 1 AS s\n"
        "CLUSTER n VIA b AS c"
    )
    variables = run(script, graph).variables
    way = nx.MultiDiGraph([(s, t) for s, t, kind in edges if kind == "a"])
    way.add_nodes_from(nodes)
    away = nx.single_source_shortest_path_length(way, nodes[0], cutoff=2)
    expected = sorted((d, nodes.index(node), node) for node, d in away.items() if d)
    assert [(x["depth"], x["id"]) for x in variables["w"]] == [(d, node) for d, _, node in expected]
    near = {nodes[0]} | {t for s, t, _ in edges if s == nodes[0]} | {s for s, t, _ in edges if t == nodes[0]}
    assert [x["id"] for x in variables["s"]["nodes"]] == [node for node in nodes if node in near]
    inner = [(s, t) for s, t, _ in edges if s in near and t in near]
    assert [(x["source"], x["target"]) for x in variables["s"]["edges"]] == inner
    parts = nx.Graph([(s, t) for s, t, kind in edges if kind == "b"])
    parts.add_nodes_from(nodes)
    groups = [[node for node in nodes if node in part] for part in nx.connected_components(parts)]
    groups.sort(key=lambda part: (-len(part), nodes.index(part[0])))
    assert [[x["id"] for x in part["items"]] for part in variables["c"]] == groups
