"""The part of the graph-tool backend that runs in the Python that has graph-tool.

    python graph_tool_worker.py FOLDER

This Python and its numpy may be older than ours, so the file imports nothing of this package, has no
annotations, and communicates by files. Reads FOLDER/request.json (threads; shapes: id, k, edges; draws: k,
ratio, seed, shapes), FOLDER/edges.npy int64 (m, 2) and FOLDER/nodes.npy (the number of nodes). Without draws
it counts all shapes and FOLDER/answer.npz holds ids and totals as text; else it holds draw, shape and nodes
of every occurrence that RAND-ESU kept. Started by graphlets.graph_tool.
"""

import json
import os
import sys

import graph_tool
import graph_tool.clustering
import numpy


def main(folder):
    with open(os.path.join(folder, "request.json"), encoding="utf-8") as file:
        request = json.load(file)
    graph = graph_tool.Graph(directed=False)
    graph.add_vertex(int(numpy.load(os.path.join(folder, "nodes.npy"))))
    graph.add_edge_list(numpy.load(os.path.join(folder, "edges.npy")))
    graph_tool.openmp_set_num_threads(request["threads"])
    answer = sample(graph, request) if request["draws"] else count(graph, request)
    numpy.savez(os.path.join(folder, "answer.npz"), **answer)


def motifs(graph, k, shapes, ratio, maps):
    """The shape ids and graph-tool's results, in graph-tool's order of the motifs; edges identify a motif's shape."""
    by_edges = {edge_set(shape["edges"]): shape["id"] for shape in shapes}
    graphs = []
    for shape in shapes:
        motif = graph_tool.Graph(directed=False)
        motif.add_vertex(k)
        motif.add_edge_list(shape["edges"])
        graphs.append(motif)
    # Only the last level of the search tree is thinned, as in the published use of RAND-ESU. graph-tool 2.45 reads
    # one probability more than the k it documents, and crashes on an undefined value: hence the last 1.0.
    chances = [1.0] * (k - 1) + [ratio, 1.0]
    result = graph_tool.clustering.motifs(graph, k, p=chances, motif_list=graphs, return_maps=maps)
    ids = [
        by_edges[edge_set((int(e.source()), int(e.target())) for e in motif.edges())] for motif in result[0]
    ]
    return ids, result


def edge_set(edges):
    return frozenset((min(a, b), max(a, b)) for a, b in edges)


def count(graph, request):
    totals = {}
    for k in sorted({shape["k"] for shape in request["shapes"]}):
        ids, result = motifs(graph, k, [s for s in request["shapes"] if s["k"] == k], 1.0, maps=False)
        totals.update({shape: int(total) for shape, total in zip(ids, result[1])})  # noqa: B905
    return {
        "ids": numpy.array(sorted(totals), dtype=numpy.int64),
        "totals": numpy.array([str(totals[shape]) for shape in sorted(totals)]),
    }


def sample(graph, request):
    occurrences = []
    for number, draw in enumerate(request["draws"]):
        graph_tool.seed_rng(draw["seed"])
        shapes = [shape for shape in request["shapes"] if shape["id"] in draw["shapes"]]
        ids, result = motifs(graph, draw["k"], shapes, draw["ratio"], maps=True)
        for shape, maps in zip(ids, result[2]):  # noqa: B905
            occurrences += [(number, shape, [int(v) for v in m.a] + [-1] * (5 - draw["k"])) for m in maps]
    return {
        "draw": numpy.array([number for number, _, _ in occurrences], dtype=numpy.int64),
        "shape": numpy.array([shape for _, shape, _ in occurrences], dtype=numpy.int64),
        "nodes": numpy.array([nodes for _, _, nodes in occurrences], dtype=numpy.int32).reshape(
            len(occurrences), 5
        ),
    }


if __name__ == "__main__":
    main(sys.argv[1])
