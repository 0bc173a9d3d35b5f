"""The part of the graph-tool backend that runs where graph-tool lives.

    python graph_tool_worker.py FOLDER

It may be another and older Python with another numpy than ours, so it imports nothing of this package, has
no annotations, and speaks through files. Reads FOLDER/request.json (threads, seed, shapes: id, k, edges,
size or null), FOLDER/edges.npy int64 (m, 2) and FOLDER/nodes.npy (the number of nodes); writes
FOLDER/answer.npz (ids, totals as text, shape, nodes). Started by graphlets.graph_tool.
"""

import json
import os
import sys

import graph_tool
import graph_tool.clustering
import numpy

BUCKET = 4.0  # shapes whose sampling ratios differ by less share one enumeration


def main(folder):
    with open(os.path.join(folder, "request.json"), encoding="utf-8") as file:
        request = json.load(file)
    graph = graph_tool.Graph(directed=False)
    graph.add_vertex(int(numpy.load(os.path.join(folder, "nodes.npy"))))
    graph.add_edge_list(numpy.load(os.path.join(folder, "edges.npy")))
    graph_tool.openmp_set_num_threads(request["threads"])
    totals, found = {}, []
    for k in sorted({shape["k"] for shape in request["shapes"]}):
        shapes = [shape for shape in request["shapes"] if shape["k"] == k]
        totals.update(count(graph, k, shapes))
        found += sample(graph, k, shapes, totals, request["seed"])
    numpy.savez(
        os.path.join(folder, "answer.npz"),
        ids=numpy.array(sorted(totals), dtype=numpy.int64),
        totals=numpy.array([str(totals[shape]) for shape in sorted(totals)]),
        shape=numpy.array([shape for shape, _ in found], dtype=numpy.int64),
        nodes=numpy.array([nodes for _, nodes in found], dtype=numpy.int32).reshape(len(found), 5),
    )


def motifs(graph, k, shapes, ratio, maps):
    """graph-tool sorts what it returns; the motifs are told apart by their edges, which it keeps."""
    by_edges = {edge_set(shape["edges"]): shape["id"] for shape in shapes}
    wanted = []
    for shape in shapes:
        motif = graph_tool.Graph(directed=False)
        motif.add_vertex(k)
        motif.add_edge_list(shape["edges"])
        wanted.append(motif)
    # Only the last level of the search tree is thinned, as in the published use of RAND-ESU.
    chances = [1.0] * (k - 1) + [ratio]
    result = graph_tool.clustering.motifs(graph, k, p=chances, motif_list=wanted, return_maps=maps)
    ids = [
        by_edges[edge_set((int(e.source()), int(e.target())) for e in motif.edges())] for motif in result[0]
    ]
    return ids, result


def edge_set(edges):
    return frozenset((min(a, b), max(a, b)) for a, b in edges)


def count(graph, k, shapes):
    ids, result = motifs(graph, k, shapes, 1.0, maps=False)
    return {shape: int(total) for shape, total in zip(ids, result[1])}  # noqa: B905


def sample(graph, k, shapes, totals, seed):
    """Every occurrence independently with the shape's ratio, so the sizes vary around what was asked for."""
    ratios = {s["id"]: min(1.0, s["size"] / totals[s["id"]]) for s in shapes if s["size"] and totals[s["id"]]}
    found = []
    while ratios:
        highest = max(ratios.values())
        group = {shape: ratio for shape, ratio in ratios.items() if ratio > highest / BUCKET}
        ratios = {shape: ratio for shape, ratio in ratios.items() if shape not in group}
        graph_tool.seed_rng(seed + min(group))
        random = numpy.random.RandomState((seed + min(group)) % 2**32)
        ids, result = motifs(graph, k, [s for s in shapes if s["id"] in group], highest, maps=True)
        for shape, maps in zip(ids, result[2]):  # noqa: B905
            keep = random.random_sample(len(maps)) * highest < group[shape]
            for chosen in numpy.flatnonzero(keep):
                found.append((shape, [int(v) for v in maps[chosen].a] + [-1] * (5 - k)))
    return found


if __name__ == "__main__":
    main(sys.argv[1])
