"""Examples for prompts from a benchmark file of the user: the questions most similar to the pair, by BM25.

MedQA: JSON Lines with `question`, `options` {"A": …} and `answer_idx`. PubMedQA: its own JSON object of items by
PMID (`ori_pqal.json`) with `QUESTION`, `LONG_ANSWER` and `final_decision`, and `CONTEXTS` where it has them. Plain or
gzip. Use the training part: questions of a prompt must not occur in the test part. As published, examples of MedQA do
not show which option is right.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.errors import InputError
from kgqa_hpc.prompts.safe_text import TEXT_LENGTH, clean_text
from kgqa_hpc.text import bounded_json
from kgqa_hpc.text.streams import TextStream


class Examples:
    """The items of a benchmark file as texts of one line each. Raises InputError naming the file and the item."""

    def __init__(self, path: Path) -> None:
        self._texts = [clean_text(text, TEXT_LENGTH) for text in _texts(path)]
        if not self._texts:
            raise InputError(f"{path}: holds no item", "name the benchmark's training file")
        self._index = SmallIndex(self._texts)

    def like(self, text: str, number: int) -> list[str]:
        """The `number` items most similar to the text, best first."""
        return [self._texts[position] for position in self._index.search(text, number)] if number else []


def _texts(path: Path) -> Iterator[str]:
    for location, item in _items(path):
        text = _medqa(item) or _pubmedqa(item)
        if text is None:
            raise InputError(
                f"{path} {location}: is no item of MedQA or PubMedQA", "see docs/guide/documents.md"
            )
        yield text


def _items(path: Path) -> Iterator[tuple[str, Any]]:
    with TextStream(path, InputError) as stream:
        data = stream.readall()
    try:
        whole = bounded_json.loads(data)
    except orjson.JSONDecodeError:
        whole = None  # JSON Lines, or a damaged file, which the reader of lines reports
    if isinstance(whole, dict) and "question" not in whole:
        yield from ((f"item {key}", item) for key, item in whole.items())
        return
    for number, item in bounded_json.json_lines(io.BytesIO(data), path):
        yield f"line {number:,}", item


def _medqa(item: Any) -> str | None:
    if not isinstance(item, dict) or not isinstance(item.get("options"), dict):
        return None
    options, right = item["options"], item.get("answer_idx")
    if not isinstance(item.get("question"), str) or right not in options:
        return None
    listed = " ".join(f"({letter}) {text}" for letter, text in options.items())
    return f"{item['question']} {listed}"


def _pubmedqa(item: Any) -> str | None:
    fields = (
        [item.get(name) for name in ("QUESTION", "LONG_ANSWER", "final_decision")]
        if isinstance(item, dict)
        else []
    )
    if not fields or not all(isinstance(field, str) for field in fields):
        return None
    contexts = item.get("CONTEXTS") or []
    context = f"Context: {' '.join(map(str, contexts))} " if isinstance(contexts, list) and contexts else ""
    return f"{context}Question: {fields[0]} Long answer: {fields[1]} Decision: {fields[2]}"


class SmallIndex:
    """A read-only index of texts by position; the same texts give the same results."""

    def __init__(self, texts: Sequence[str]) -> None:
        import tantivy  # an extra's package, loaded with the first index

        from kgqa_hpc.plugins.literature.bm25 import terms

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
        import tantivy

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
