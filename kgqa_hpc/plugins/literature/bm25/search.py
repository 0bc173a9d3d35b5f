"""Search an index: the k best documents, exactly, whatever the number of shards.

Inside a shard tantivy ranks by BM25 with the shard's own frequencies and with document lengths rounded down to
a byte. Here each term is weighted so that its frequency counts as that of all shards together. A shard's score
is then an upper bound of the exact one, up to a known factor of mean lengths. So documents are taken best
first from all shards and scored exactly until no other can be among the k best (Fagin's threshold algorithm).
Equal scores go by id. BM25 as in Robertson and Zaragoza (2009) with Lucene's idf, which is never negative; k1 and b
are fixed in tantivy.
"""

import heapq
import math
from bisect import insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import tantivy

from kgqa_hpc.plugins.literature.bm25.shard import K1, B, Shard, analyzer, read_manifest, verify
from kgqa_hpc.plugins.literature.documents.document import Document

# Distinct terms of a query that are used; a longer query is cut to its first terms.
MAX_TERMS = 512
# Documents that are scored exactly for one query before the rest is taken as ranked by the shards.
MAX_CANDIDATES = 20_000
# Scores are sums of a few logarithms: beyond this digit they depend on the order of adding.
DIGITS = 6
_STEP = 10.0**-DIGITS
# tantivy adds in single precision.
_ROUNDING = 1 + 1e-5


def idf(documents: int, containing: int) -> float:
    """Inverse document frequency of a term that `containing` of `documents` contain."""
    return math.log(1 + (documents - containing + 0.5) / (containing + 0.5))


def saturation(frequency: int, length: int, average_length: float) -> float:
    """BM25 weight, before the idf, of a term that occurs `frequency` times in a document of `length` terms."""
    return frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * length / average_length))


@dataclass(frozen=True, slots=True)
class Hit:
    """A document found, with its BM25 score."""

    id: str
    score: float
    document: Document


class Retriever(Protocol):
    """Interface of search: our own index, or a site's search service with the same methods."""

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The `k` best documents with any word of the query, best first; `query` is text, never syntax."""
        ...

    def provenance(self) -> dict[str, Any]:
        """The data needed to repeat a search: parameters and the fingerprint of the documents."""
        ...


class Bm25Index:
    """A finished index, open for searching. Safe to share between processes: nothing is written.

    `every_byte`: verify all of it now; None: when it is small. Raises InputError, CorruptFile, NewerFormat.
    """

    def __init__(self, folder: Path, every_byte: bool | None = None) -> None:
        self._manifest = read_manifest(folder)
        verify(folder, self._manifest, every_byte)
        stem = self._manifest["parameters"]["stemmer"] is not None
        self._analyzer = analyzer(stem)
        facts = self._manifest["shards"]
        self._shards = [Shard(folder / "shards" / f"{n:04d}", stem) for n in range(len(facts))]
        self.documents = sum(shard["documents"] for shard in facts)
        words = sum(shard["terms"] for shard in facts)
        self._average = words / self.documents if words else 1.0
        # Factor by which a shard's score may be below the exact one, because its mean document length differs.
        self._slack = [
            _ROUNDING * max(1.0, self._average * shard["documents"] / max(shard["terms"], 1))
            for shard in facts
        ]

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The `k` best documents with any word of the query, best first, equal scores by id."""
        query_terms = dict(islice(Counter(self._analyzer.analyze(query)).items(), MAX_TERMS))
        blocks = {term: [shard.containing(term) for shard in self._shards] for term in query_terms}
        weights = {
            term: count * idf(self.documents, sum(blocks[term]))
            for term, count in query_terms.items()
            if sum(blocks[term])
        }
        streams = [self._candidates(n, weights, blocks, k) for n in range(len(self._shards))]
        merged = heapq.merge(*streams, key=lambda candidate: -candidate[0])
        best: list[tuple[float, str, Document]] = []  # (-score, id, document), ascending
        for bound, number, address in islice(merged, MAX_CANDIDATES):
            if len(best) == k and bound + _STEP < -best[-1][0]:
                break
            document = self._shards[number].document(address)
            words = self._analyzer.analyze(document.searchable)
            counts = sorted(Counter(word for word in words if word in weights).items())
            exact = (weights[word] * saturation(n, len(words), self._average) for word, n in counts)
            score = round(sum(exact), DIGITS)
            if len(best) < k or (-score, document.id) < best[-1][:2]:
                insort(best, (-score, document.id, document), key=lambda hit: hit[:2])
                del best[k:]
        return [Hit(name, -negative, document) for negative, name, document in best]

    def provenance(self) -> dict[str, Any]:
        return {key: self._manifest[key] for key in ("fingerprint", "parameters", "inputs", "counts")}

    def _candidates(
        self, number: int, weights: dict[str, float], blocks: dict[str, list[int]], k: int
    ) -> Iterator[tuple[float, int, tantivy.DocAddress]]:
        """(upper bound of the score, number, address) of documents of a shard, highest bound first."""
        shard, slack = self._shards[number], self._slack[number]
        postings = {
            term: weight / idf(shard.documents, blocks[term][number])
            for term, weight in weights.items()
            if blocks[term][number]
        }
        if postings:
            for score, address in shard.ranked(postings, limit=2 * k + 10):
                yield score * slack, number, address
