"""Search an index: the k best documents, exactly, whatever the number of shards.

Inside a shard tantivy ranks by BM25 with the shard's own frequencies and with document lengths rounded down to
a byte. Here each term is weighted so that its frequency counts as that of all shards together. A shard's score
is then an upper bound of the exact one, up to a known factor of mean lengths. So documents are taken best
first from all shards and scored exactly until no other can be among the k best (Fagin's threshold algorithm).
Equal scores go by id. BM25 as in Robertson and Zaragoza (2009) with Lucene's idf, which is never negative; k1 and b
are fixed in tantivy.

Terms are runs of letters and digits, lower case, without English stop words (the list of tantivy, Lucene's); stemmed
only when asked for. The manifest of an index, `index.json`, holds its parameters, the input files with their sha256,
the counts, what building cost, and every file of the shards with its checksum. A finished index is never changed.
"""

import heapq
import math
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import orjson
import tantivy

from kgqa_hpc.errors import CorruptFile, InputError
from kgqa_hpc.plugins.literature.document import Document, OtherAbstract
from kgqa_hpc.store import canonical

K1 = 1.2
B = 0.75
TOKENIZER = "kgqa"
# Longer runs of letters are sequences or damage, not words.
LONGEST_TERM = 255
MANIFEST = "index.json"
VERSION = 1
# Bytes that the writer buffers before it writes a segment; tools/bench_index.py measures the effect.
HEAP_BYTES = 64 << 20
# Up to this size every byte is verified whenever an index is opened: it takes under a second.
VERIFIED_ALWAYS = 512 << 20
# tantivy's own thread may add its lock file once to a folder that is being removed.
ATTEMPTS = 10

# Distinct terms of a query that are used; a longer query is cut to its first terms.
MAX_TERMS = 512
# Maximum number of documents scored exactly for one query; all others, with lower bounds, are then ignored.
MAX_CANDIDATES = 20_000
# Decimal places of a score: further digits depend on the order in which its terms are added.
DIGITS = 6
_STEP = 10.0**-DIGITS
# Allowance for rounding errors: tantivy adds scores in single precision.
_ROUNDING = 1 + 1e-5


def analyzer(stem: bool) -> tantivy.TextAnalyzer:
    """The analyzer that splits documents and queries into terms."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    builder = builder.filter(tantivy.Filter.remove_long(LONGEST_TERM + 1))
    builder = builder.filter(tantivy.Filter.lowercase()).filter(tantivy.Filter.stopword("english"))
    if stem:
        builder = builder.filter(tantivy.Filter.stemmer("english"))
    return builder.build()


def new_index(folder: Path | None, stem: bool) -> tantivy.Index:
    """An empty index in a folder, or in memory without one."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("terms", tokenizer_name=TOKENIZER, index_option="freq")
    builder.add_bytes_field("document", stored=True)
    index = tantivy.Index(builder.build(), path=None if folder is None else str(folder))
    index.register_tokenizer(TOKENIZER, analyzer(stem))
    return index


def add_documents(index: tantivy.Index, documents: Iterable[tuple[str, str, bytes]]) -> None:
    """Add the id, the text to search and the stored bytes of each document, in one thread."""
    writer = index.writer(heap_size=HEAP_BYTES, num_threads=1)
    for name, text, stored in documents:
        entry = tantivy.Document()
        entry.add_text("id", name)
        entry.add_text("terms", text)
        entry.add_bytes("document", stored)
        writer.add_document(entry)
    writer.commit()
    writer.wait_merging_threads()


def load_document(name: str, version: int, content: list[Any]) -> Document:
    """The document that was written as [id, version, content]."""
    title, text, retracted, abstracts = content
    beside = tuple(OtherAbstract(*abstract) for abstract in abstracts)
    return Document(name, title, text, version, retracted, beside)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished index. Raises InputError (the folder is none), CorruptFile, NewerFormat."""
    if not (folder / MANIFEST).is_file():
        problem = f"{folder}: not an index (no {MANIFEST} in it)"
        raise InputError(problem, "make one: kgqa index build INDEX DOCS…")
    return canonical.read_document(folder / MANIFEST, "index", VERSION)


def verify(folder: Path, manifest: dict[str, Any], every_byte: bool | None = None) -> None:
    """Check the files against the manifest: names and sizes always, checksums if `every_byte` (None: if small).

    Raises CorruptFile with the name of the file.
    """
    files = manifest["files"]
    if every_byte is None:
        every_byte = sum(file["bytes"] for file in files.values()) <= VERIFIED_ALWAYS
    for name, expected in files.items():
        path = folder / name
        cure = "remove the index and build it again"
        if not path.is_file() or path.stat().st_size != expected["bytes"]:
            raise CorruptFile(f"{path}: missing, or not as long as it was written", cure)
        if every_byte and canonical.sha256_of(path) != expected["sha256"]:
            raise CorruptFile(f"{path}: the checksum does not match the content", cure)


def idf(documents: int, containing: int) -> float:
    """Inverse document frequency of a term that `containing` of `documents` contain."""
    return math.log(1 + (documents - containing + 0.5) / (containing + 0.5))


@dataclass(frozen=True, slots=True)
class Hit:
    """A document found, with its BM25 score."""

    id: str
    score: float
    document: Document


class Shard:
    """One shard of an index, open for searching in its present state. `documents`: number of its documents."""

    def __init__(self, index: tantivy.Index) -> None:
        index.reload()
        self._schema, self.searcher = index.schema, index.searcher()
        self.documents = self.searcher.num_docs

    @classmethod
    def open(cls, folder: Path, stem: bool) -> "Shard":
        """The shard in a folder.

        tantivy writes a lock file where it opens, which a read-only or foreign folder refuses; so it is given a
        folder of links to the files. The links go as soon as the files are open, so that a process that is killed
        leaves none behind.
        """
        links = Path(mkdtemp(prefix="kgqa-shard-"))
        try:
            for path in folder.absolute().iterdir():
                if path.suffix != ".lock":
                    (links / path.name).symlink_to(path)
            index = tantivy.Index.open(str(links))
            index.register_tokenizer(TOKENIZER, analyzer(stem))
            return cls(index)
        finally:
            for _ in range(ATTEMPTS):
                rmtree(links, ignore_errors=True)

    def ranked(self, weights: dict[str, float], limit: int) -> Iterator[tuple[float, tantivy.DocAddress]]:
        """(score, address) of the documents with any of these terms, best first, fetched as they are needed.

        `weights`: factors for the shard's own scores of the terms. `limit`: number of documents fetched first.
        """
        clauses = []
        for term, weight in weights.items():
            clause = tantivy.Query.term_query(self._schema, "terms", term, index_option="freq")
            boosted = clause if weight == 1.0 else tantivy.Query.boost_query(clause, weight)
            clauses.append((tantivy.Occur.Should, boosted))
        query, offset = tantivy.Query.boolean_query(clauses), 0
        while True:
            hits = self.searcher.search(query, limit, count=False, offset=offset).hits
            yield from hits
            if len(hits) < limit:
                return
            offset, limit = offset + limit, 3 * (offset + limit)

    def stored(self, address: tantivy.DocAddress) -> bytes:
        """The bytes stored with a document."""
        return bytes(self.searcher.doc(address)["document"][0])


class Bm25Index:
    """A finished index, open for searching. Safe to share between processes: nothing is written.

    `parameters`: parameters of terms and scores; `fingerprint`: digest of documents and parameters.
    `every_byte`: whether to verify all checksums now; None: only those of a small index. Raises InputError,
    CorruptFile, NewerFormat.
    """

    def __init__(self, folder: Path, every_byte: bool | None = None) -> None:
        manifest = read_manifest(folder)
        verify(folder, manifest, every_byte)
        self.parameters, self.fingerprint = manifest["parameters"], manifest["fingerprint"]
        stem = self.parameters["stemmer"] is not None
        self._analyzer = analyzer(stem)
        facts = manifest["shards"]
        self._shards = [Shard.open(folder / "shards" / f"{n:04d}", stem) for n in range(len(facts))]
        self.documents = sum(shard["documents"] for shard in facts)
        words = sum(shard["terms"] for shard in facts)
        self._average = words / self.documents if words else 1.0
        # Factor by which a shard's score may be below the exact one, because its mean document length differs.
        shares = (shard["documents"] / max(shard["terms"], 1) for shard in facts)
        self._slack = [_ROUNDING * max(1.0, self._average * share) for share in shares]

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The `k` best documents with any word of the query, best first, equal scores by id.

        The query is text, never syntax.
        """
        query_terms = dict(islice(Counter(self._analyzer.analyze(query)).items(), MAX_TERMS))
        counted = {t: [shard.searcher.doc_freq("terms", t) for shard in self._shards] for t in query_terms}
        blocks = {term: counts for term, counts in counted.items() if any(counts)}
        weights = {t: query_terms[t] * idf(self.documents, sum(counts)) for t, counts in blocks.items()}
        streams = [self._candidates(n, weights, blocks, k) for n in range(len(self._shards))]
        merged = heapq.merge(*streams, key=lambda candidate: -candidate[0])
        best: list[tuple[float, str, Document]] = []  # (-score, id, document), ascending
        for bound, number, address in islice(merged, MAX_CANDIDATES):
            if len(best) == k and bound + _STEP < -best[-1][0]:
                break
            document = load_document(*orjson.loads(self._shards[number].stored(address)))
            words = self._analyzer.analyze(document.searchable)
            counts = sorted(Counter(word for word in words if word in weights).items())
            damping = K1 * (1 - B + B * len(words) / self._average)  # saturation of a term's frequency
            exact = (weights[word] * (n * (K1 + 1) / (n + damping)) for word, n in counts)
            score = round(sum(exact), DIGITS)
            if len(best) < k or (-score, document.id) < best[-1][:2]:
                insort(best, (-score, document.id, document), key=lambda hit: hit[:2])
                del best[k:]
        return [Hit(name, -negative, document) for negative, name, document in best]

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
