"""Clusters of similar sequences that a split keeps together, to avoid homology leakage.

With MMseqs2 on the PATH by sequence identity, else by the Jaccard similarity of k-mer sets. The method and
its threshold are part of the result, because the quality of a split depends on them. Connected sequences are one
cluster (single linkage), so by k-mers no pair across clusters reaches the threshold.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgqa_hpc.errors import KgqaError

K, JACCARD = 5, 0.1
IDENTITY, COVERAGE = 0.3, 0.8  # usual threshold of protein benchmarks
_ROWS = 512  # sequences compared with all others at a time

Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Clusters:
    """`labels` (n,), numbered by descending size; `method` names method and threshold in words."""

    labels: Labels
    method: str


def cluster(sequences: Sequence[str]) -> Clusters:
    """By MMseqs2 when it is installed, else by k-mers. Raises KgqaError when MMseqs2 fails."""
    return cluster_by_mmseqs(sequences) if shutil.which("mmseqs") else cluster_by_kmers(sequences)


def cluster_by_kmers(sequences: Sequence[str], *, k: int = K, threshold: float = JACCARD) -> Clusters:
    """Connected components of sequences whose k-mer sets have a Jaccard similarity of at least `threshold`.

    A sequence shorter than k is one k-mer. Exact; memory for the pairs that share a k-mer, in blocks.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n = len(sequences)
    pairs = [_similar(block, threshold) for block in _blocks(kmer_matrix(sequences, k))]
    rows = np.concatenate([pair[0] for pair in pairs]) if pairs else np.empty(0, dtype=np.int64)
    right = np.concatenate([pair[1] for pair in pairs]) if pairs else np.empty(0, dtype=np.int64)
    graph = coo_matrix((np.ones(len(rows)), (rows, right)), shape=(n, n))
    labels = connected_components(graph, directed=False)[1] if n else np.empty(0, dtype=np.int64)
    return Clusters(_by_size(labels), f"single linkage of Jaccard >= {threshold:g} on {k}-mers")


def cluster_by_mmseqs(
    sequences: Sequence[str], *, identity: float = IDENTITY, coverage: float = COVERAGE
) -> Clusters:
    """`mmseqs easy-cluster` at this identity and coverage. Raises KgqaError with what it said if it fails."""
    with TemporaryDirectory(prefix="kgqa-mmseqs-") as name:
        folder = Path(name)
        lines = (f">{i}\n{sequence}\n" for i, sequence in enumerate(sequences))
        (folder / "in.fasta").write_text("".join(lines), encoding="ascii")
        command = ["mmseqs", "easy-cluster", "in.fasta", "out", "tmp", "--min-seq-id", f"{identity:g}"]
        command += ["-c", f"{coverage:g}", "--cov-mode", "0", "--cluster-mode", "1", "-v", "1"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        path = folder / "out_cluster.tsv"
        if done.returncode or not path.exists():
            last_words = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["nothing"]
            raise KgqaError(f"mmseqs easy-cluster failed: {last_words[0]!r}", "or cluster by k-mers")
        labels = np.arange(len(sequences))
        for line in path.read_text(encoding="ascii").splitlines():
            representative, member = line.split("\t")
            labels[int(member)] = int(representative)
    return Clusters(
        _by_size(labels), f"MMseqs2 easy-cluster, identity >= {identity:g}, coverage >= {coverage:g}"
    )


def highest_similarity_across(sequences: Sequence[str], parts: Sequence[str], *, k: int = K) -> float:
    """Leakage of a split: the highest Jaccard similarity between sequences of different parts."""
    names = np.asarray(parts)
    highest = 0.0
    for block in _blocks(kmer_matrix(sequences, k)):
        rows, right, similarity = block
        across = names[rows] != names[right]
        highest = max(highest, float(similarity[across].max(initial=0.0)))
    return highest


def kmer_matrix(sequences: Sequence[str], k: int = K) -> Any:
    """Sparse incidence matrix (n, k-mers) of sequences and k-mers."""
    from scipy.sparse import csr_matrix

    column_of: dict[str, int] = {}
    rows: list[int] = []
    columns: list[int] = []
    for i, sequence in enumerate(sequences):
        text = sequence.upper()
        kmers = {text[j : j + k] for j in range(max(1, len(text) - k + 1))}
        rows += [i] * len(kmers)
        columns += [column_of.setdefault(kmer, len(column_of)) for kmer in sorted(kmers)]
    return csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(sequences), len(column_of)))


_Block = tuple[Labels, Labels, NDArray[np.float64]]


def _blocks(matrix: Any) -> Iterator[_Block]:
    """Pairs that share a k-mer and their Jaccard similarity, block by block."""
    sizes = np.asarray(matrix.sum(axis=1)).ravel()
    transposed = matrix.T.tocsc()
    for start in range(0, matrix.shape[0], _ROWS):
        shared = (matrix[start : start + _ROWS] @ transposed).tocoo()
        rows, right = shared.row.astype(np.int64) + start, shared.col.astype(np.int64)
        yield rows, right, shared.data / (sizes[rows] + sizes[right] - shared.data)


def _similar(block: _Block, threshold: float) -> tuple[Labels, Labels]:
    rows, right, similarity = block
    similar = (similarity >= threshold) & (rows < right)
    return rows[similar], right[similar]


def _by_size(labels: Labels) -> Labels:
    if not len(labels):
        return np.empty(0, dtype=np.int64)
    names, firsts, members, sizes = np.unique(
        labels, return_index=True, return_inverse=True, return_counts=True
    )
    rank = np.empty(len(names), dtype=np.int64)
    rank[np.lexsort((firsts, -sizes))] = np.arange(len(names))
    return rank[members]
