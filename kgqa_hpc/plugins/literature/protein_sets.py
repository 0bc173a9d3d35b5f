"""Datasets about proteins: a table of their figures, and the clusters of similar sequences that a split keeps together.

The rows of `kgqa proteins RUN…` are those of QAProt's Table 1 (lengths in words, sequences in residues) and Table 6
(lengths in characters; full texts beside abstracts).

Sequences are clustered, to avoid homology leakage, with MMseqs2 on the PATH by sequence identity, else by the Jaccard
similarity of k-mer sets. The method and its threshold are part of the result, because the quality of a split depends on
them. Connected sequences are one cluster (single linkage), so by k-mers no pair across clusters reaches the threshold.
"""

import math
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kgqa_hpc.anchors.records import read_records
from kgqa_hpc.errors import InputError, KgqaError
from kgqa_hpc.steps.item import PAIR

ROWS = {
    "pairs": "question-answer pairs",
    "documents": "documents",
    "proteins": "proteins, over documents",
    "names": "unique protein names",
    "accessions": "unique accessions",
    "questions": "unique questions",
    "question_words": "mean words of a question",
    "answer_words": "mean words of an answer",
    "question_characters": "mean characters of a question",
    "answer_characters": "mean characters of an answer",
    "residues": "mean residues of a sequence",
}


def protein_table(sources: Iterable[Path]) -> dict[str, dict[str, float | None]]:
    """The rows of each source, a merged run or a file of records; rejected records are left out.

    A mean is None where no record has such a text. Raises InputError for a source without accepted pairs.
    """
    result: dict[str, dict[str, float | None]] = {}
    for source in sources:
        pairs = [_facts(record) for record in read_records(source) if record.get("accepted", True)]
        if not pairs:
            raise InputError(f"{source}: has no accepted pair", "name a merged literature run")
        table, names = pd.DataFrame(pairs), list(ROWS)
        column = result[str(source)] = {"pairs": len(table)}
        column |= {name: int(table[name].nunique()) for name in names[1:6]}
        means = {name: round(float(table[name].mean()), 2) for name in names[6:]}
        column |= {name: None if math.isnan(mean) else mean for name, mean in means.items()}
    return result


def _facts(record: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a pair for the rows of the table except the first; None or NaN for a missing value."""
    question, answer = (record.get(f"{name}_with_names") or record.get(name) for name in PAIR)
    if not (isinstance(question, str) and isinstance(answer, str)):
        raise InputError(f"record {record['id']!r} has no question and answer", "leave it out")
    document, protein = record.get("document_id") or None, (record.get("protein") or "").casefold() or None
    return {
        "documents": document,
        "proteins": protein and (document, protein),
        "names": protein,
        "accessions": record.get("accession") or None,
        "questions": question.casefold(),
        "question_words": len(question.split()),
        "answer_words": len(answer.split()),
        "question_characters": len(question),
        "answer_characters": len(answer),
        "residues": len(record.get("sequence") or "") or math.nan,
    }


def render(table: Mapping[str, Mapping[str, float | None]]) -> str:
    """A table of Markdown, one column a source."""
    lines = [f"| | {' | '.join(table)} |", "|---" * (len(table) + 1) + "|"]
    for name, words in ROWS.items():
        cells = ("" if column[name] is None else f"{column[name]:,}" for column in table.values())
        lines.append(f"| {words} | {' | '.join(cells)} |")
    return "\n".join(lines)


K, JACCARD = 5, 0.1
IDENTITY, COVERAGE = 0.3, 0.8  # usual threshold of protein benchmarks
SHORTEST = 14  # residues; MMseqs2 refuses a file of shorter sequences alone
_NO_RESIDUE = re.compile(r"[^A-Za-z*]")
_ROWS = 512  # sequences compared with all others at a time

Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Clusters:
    """`labels` (n,), equal within a cluster; `method` names method and threshold in words."""

    labels: Labels
    method: str


def cluster(sequences: Sequence[str]) -> Clusters:
    """Clusters of similar sequences, by MMseqs2 if installed, else by k-mers. Raises KgqaError when MMseqs2 fails."""
    return cluster_by_mmseqs(sequences) if shutil.which("mmseqs") else cluster_by_kmers(sequences)


def cluster_by_kmers(sequences: Sequence[str], *, k: int = K, threshold: float = JACCARD) -> Clusters:
    """Connected components of sequences whose k-mer sets have a Jaccard similarity of at least `threshold`.

    A sequence shorter than k is one k-mer. The result is exact. Memory holds the pairs that share a k-mer, one block of
    sequences at a time.
    """
    from scipy.sparse import coo_matrix, csr_matrix
    from scipy.sparse.csgraph import connected_components

    n, column_of = len(sequences), dict[str, int]()
    rows, columns = list[int](), list[int]()
    for i, sequence in enumerate(sequences):
        text = sequence.upper()
        kmers = {text[j : j + k] for j in range(max(1, len(text) - k + 1))}
        rows += [i] * len(kmers)
        columns += [column_of.setdefault(kmer, len(column_of)) for kmer in sorted(kmers)]
    matrix = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(n, len(column_of)))
    sizes, transposed = np.asarray(matrix.sum(axis=1)).ravel(), matrix.T.tocsc()
    edges = [np.empty((2, 0), np.int64)]
    for start in range(0, n, _ROWS):
        shared = (matrix[start : start + _ROWS] @ transposed).tocoo()
        pairs = np.stack([shared.row.astype(np.int64) + start, shared.col])
        similarity = shared.data / (sizes[pairs].sum(axis=0) - shared.data)
        edges.append(pairs[:, (similarity >= threshold) & (pairs[0] < pairs[1])])
    similar = np.concatenate(edges, axis=1)
    graph = coo_matrix((np.ones(similar.shape[1]), similar), shape=(n, n))
    labels = connected_components(graph, directed=False)[1] if n else np.empty(0, dtype=np.int64)
    return Clusters(labels, f"single linkage of Jaccard >= {threshold:g} on {k}-mers")


def cluster_by_mmseqs(sequences: Sequence[str]) -> Clusters:
    """`mmseqs easy-cluster` at IDENTITY and COVERAGE; a sequence too short for it is a cluster of its own.

    Raises KgqaError with MMseqs2's last message if it fails.
    """
    labels = np.arange(len(sequences))
    method = f"MMseqs2 easy-cluster, identity >= {IDENTITY:g}, coverage >= {COVERAGE:g}"
    entries = [
        f">{i}\n{_NO_RESIDUE.sub('X', text)}\n" for i, text in enumerate(sequences) if len(text) >= SHORTEST
    ]
    if not entries:
        return Clusters(labels, method)
    with TemporaryDirectory(prefix="kgqa-mmseqs-") as name:
        folder = Path(name)
        (folder / "in.fasta").write_text("".join(entries), encoding="ascii")
        command = ["mmseqs", "easy-cluster", "in.fasta", "out", "tmp", "--min-seq-id", f"{IDENTITY:g}"]
        command += ["-c", f"{COVERAGE:g}", "--cov-mode", "0", "--cluster-mode", "1", "-v", "1"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        path = folder / "out_cluster.tsv"
        if done.returncode or not path.exists():
            last_words = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["nothing"]
            raise KgqaError(
                f"mmseqs easy-cluster failed: {last_words[0]!r}",
                "without mmseqs on the PATH, sequences are clustered by k-mers",
            )
        for line in path.read_text(encoding="ascii").splitlines():
            representative, member = line.split("\t")
            labels[int(member)] = int(representative)
    return Clusters(labels, method)
