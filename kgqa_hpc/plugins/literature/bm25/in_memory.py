"""BM25 search over a few thousand texts in memory, to find similar examples for a prompt.

The same words and ranking as an index on disk, without its exactness over shards.
"""

from __future__ import annotations

from collections.abc import Sequence

import tantivy

from kgqa_hpc.plugins.literature.bm25 import terms


class SmallIndex:
    """A read-only index of texts by position; the same texts give the same results."""

    def __init__(self, texts: Sequence[str]) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("terms", tokenizer_name=terms.TOKENIZER, index_option="freq")
        builder.add_unsigned_field("place", stored=True)
        self._analyzer = terms.analyzer(stem=False)
        self._index = tantivy.Index(builder.build())
        self._index.register_tokenizer(terms.TOKENIZER, self._analyzer)
        writer = self._index.writer(heap_size=64 << 20, num_threads=1)
        for position, text in enumerate(texts):
            document = tantivy.Document()
            document.add_text("terms", text)
            document.add_unsigned("place", position)
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def search(self, query: str, k: int) -> list[int]:
        """The positions of the `k` texts most similar to the query, best first, ties in their order."""
        words = sorted(set(self._analyzer.analyze(query)))
        clauses = [
            (
                tantivy.Occur.Should,
                tantivy.Query.term_query(self._index.schema, "terms", word, index_option="freq"),
            )
            for word in words
        ]
        if not clauses:
            return []
        hits = self._searcher.search(tantivy.Query.boolean_query(clauses), k, count=False).hits
        ranked = [(-score, self._searcher.doc(address)["place"][0]) for score, address in hits]
        return [position for _, position in sorted(ranked)]
