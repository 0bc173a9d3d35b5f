"""Which nodes the accepted questions use, and the graph they cover together, in little memory.

A node is known by the 64-bit hash of its id, so it costs 16 bytes and a link 16, however long the names are:
among 100 million nodes two fall together with a chance of 1 in 3,700.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nsmallest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pandas.util import hash_array

TOP_NODES = 10
SAMPLED = 300
BATCH = 2048  # records
GATHERED = 1 << 20  # rows that wait until equal ones are brought together
_Table = NDArray[np.int64]
_Ids = NDArray[np.int64]
Top = tuple[int, str, str]  # minus how often, id, name


@dataclass(frozen=True, slots=True)
class Sample:
    """Nodes drawn in proportion to their questions, without replacement; all where there are at most SAMPLED.

    `nodes`: id, name, questions; the most used first. `links` (m, 2): joined pairs among them, by place in `nodes`.
    """

    nodes: list[tuple[str, str, int]]
    links: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NodeUse:
    """`questions` and `degrees` (n,): of each used node, accepted questions and neighbours in the covered graph.

    `links` counts its joined pairs of nodes; `top` are the most used nodes: id, name, questions.
    """

    questions: NDArray[np.int64]
    degrees: NDArray[np.int64]
    links: int
    top: list[tuple[str, str, int]]
    sample: Sample


def count_nodes(paths: list[Path], seed: int) -> NodeUse:
    """Of the accepted records in these Parquet files; those without nodes count nothing. `seed` draws the sample."""
    used, linked = _Distinct(1), _Distinct(2)
    for nodes, edges in _batches(paths, "nodes.list.element.id", "edges"):
        ids = _hashes(nodes.flatten().field("id"))
        used.add(ids[:, None])
        if edges is not None:
            linked.add(np.sort(ids[_ends(nodes, edges)], axis=1))
    known, questions = used.rows()
    links, _ = linked.rows()
    joined = links[links[:, 0] != links[:, 1]]
    ends, degree = np.unique(joined, return_counts=True)
    degrees = np.zeros(len(known), np.int64)
    degrees[np.searchsorted(known[:, 0], ends)] = degree
    sample = _sample(paths, known[:, 0], questions, joined, seed)
    return NodeUse(questions, degrees, len(links), _top(paths, known[:, 0], questions), sample)


def _batches(paths: list[Path], *columns: str) -> Iterator[tuple[Any, Any]]:
    """Columns `nodes` and `edges` of a few records at a time; edges None where the files have none."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            if "nodes" not in file.schema_arrow.names:
                continue
            for batch in file.iter_batches(BATCH, columns=list(columns)):
                yield batch["nodes"], batch["edges"] if "edges" in batch.schema.names else None


def _hashes(ids: pa.Array) -> _Table:
    # Python's own hash of text is another in the next process, and the sample must not be.
    texts = ids.to_numpy(zero_copy_only=False).astype(object)
    return hash_array(texts, categorize=False).view(np.int64)


def _ends(nodes: pa.ListArray, edges: pa.ListArray) -> _Table:
    """Places (m, 2) among all nodes of the batch that the edges join."""
    sizes = pc.fill_null(pc.list_value_length(nodes), 0).to_numpy()
    each = pc.fill_null(pc.list_value_length(edges), 0).to_numpy()
    places = edges.flatten().flatten().to_numpy().reshape(-1, 2)
    return np.asarray(places + np.repeat(np.cumsum(sizes) - sizes, each)[:, None], np.int64)


class _Distinct:
    """Different rows (n, width) of integers, and how often each was added."""

    def __init__(self, width: int) -> None:
        self._rows, self._counts = np.empty((0, width), np.int64), np.empty(0, np.int64)
        self._new: list[_Table] = []
        self._waiting = 0

    def add(self, rows: _Table) -> None:
        self._new.append(rows)
        self._waiting += len(rows)
        if self._waiting > max(GATHERED, len(self._rows) // 2):
            self.rows()

    def rows(self) -> tuple[_Table, NDArray[np.int64]]:
        """The rows in ascending order, and their counts."""
        if self._new:
            new = np.concatenate(self._new)
            self._new, self._waiting = [], 0
            every = np.concatenate([self._rows, new])
            counts = np.concatenate([self._counts, np.ones(len(new), np.int64)])
            order = np.lexsort(every.T[::-1])
            every, counts = every[order], counts[order]
            first = np.flatnonzero(np.append(True, (every[1:] != every[:-1]).any(axis=1))[: len(every)])
            self._rows = every[first]
            self._counts = np.add.reduceat(counts, first) if len(first) else counts
        return self._rows, self._counts


def _top(
    paths: list[Path], known: NDArray[np.int64], questions: NDArray[np.int64]
) -> list[tuple[str, str, int]]:
    """The names of the most used nodes, from a second look; of equal ones those whose ids come first."""
    if not len(known):
        return []
    least = int(np.partition(questions, -min(TOP_NODES, len(questions)))[-min(TOP_NODES, len(questions))])
    best: dict[str, Top] = {}
    for nodes, _ in _batches(paths, "nodes.list.element.id", "nodes.list.element.name"):
        flat = nodes.flatten()
        counts = questions[np.searchsorted(known, _hashes(flat.field("id")))]
        wanted = flat.take(np.flatnonzero(counts >= least))
        rows = zip(counts[counts >= least].tolist(), wanted.to_pylist(), strict=True)
        for count, node in rows:
            best.setdefault(node["id"], (-count, node["id"], node["name"]))
        best = {one[1]: one for one in nsmallest(TOP_NODES, best.values())}
    return [(node, name, -count) for count, node, name in sorted(best.values())]


def _sample(paths: list[Path], known: _Ids, questions: _Ids, joined: _Table, seed: int) -> Sample:
    size = min(SAMPLED, len(known))
    if not size:
        return Sample([], np.empty((0, 2), np.int64))
    shares = questions / questions.sum()
    drawn = np.sort(np.random.default_rng(seed).choice(len(known), size, replace=False, p=shares))
    chosen = known[drawn]
    counts = questions[drawn].tolist()
    nodes = [(*one, count) for one, count in zip(_names(paths, chosen), counts, strict=True)]
    order = sorted(range(size), key=lambda place: (-nodes[place][2], nodes[place][0]))
    places = np.minimum(np.searchsorted(chosen, joined), size - 1)
    among = places[(chosen[places] == joined).all(axis=1)]
    return Sample([nodes[place] for place in order], np.argsort(order)[among])


def _names(paths: list[Path], chosen: _Ids) -> list[tuple[str, str]]:
    """Id and name of each of these nodes."""
    found: dict[int, tuple[str, str]] = {}
    for nodes, _ in _batches(paths, "nodes.list.element.id", "nodes.list.element.name"):
        flat = nodes.flatten()
        hashes = _hashes(flat.field("id"))
        there = np.flatnonzero(np.isin(hashes, chosen))
        for key, node in zip(hashes[there].tolist(), flat.take(there).to_pylist(), strict=True):
            found.setdefault(key, (node["id"], node["name"]))
        if len(found) == len(chosen):
            break
    return [found[key] for key in chosen.tolist()]
