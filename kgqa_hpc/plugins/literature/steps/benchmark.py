"""Examples for prompts from a benchmark file of the user: the questions most similar to the pair, by BM25.

MedQA: JSON Lines with `question`, `options` {"A": …} and `answer_idx`. PubMedQA: its own JSON object of items by
PMID (`ori_pqal.json`) with `QUESTION`, `LONG_ANSWER` and `final_decision`, and `CONTEXTS` where it has them. Plain or
gzip. Use the training part: questions of a prompt must not occur in the test part. As published, examples of MedQA do
not show which option is right.
"""

import io
from collections.abc import Iterator
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
        import tantivy  # an extra's package, loaded with the first examples

        from kgqa_hpc.plugins.literature.bm25.shard import TOKENIZER, analyzer

        self._texts = []
        for location, item in _items(path):
            if (text := _line(item) if isinstance(item, dict) else None) is None:
                problem = f"{path} {location}: is no item of MedQA or PubMedQA"
                raise InputError(problem, "see docs/guide/documents.md")
            self._texts.append(clean_text(text, TEXT_LENGTH))
        if not self._texts:
            raise InputError(f"{path}: holds no item", "name the benchmark's training file")
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("terms", tokenizer_name=TOKENIZER, index_option="freq")
        builder.add_unsigned_field("place", stored=True)
        self._analyzer, index = analyzer(stem=False), tantivy.Index(builder.build())
        index.register_tokenizer(TOKENIZER, self._analyzer)
        writer = index.writer(heap_size=64 << 20, num_threads=1)
        for position, line in enumerate(self._texts):
            document = tantivy.Document()
            document.add_text("terms", line)
            document.add_unsigned("place", position)
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        self._schema, self._searcher = index.schema, index.searcher()

    def like(self, text: str, number: int) -> list[str]:
        """The `number` items most similar to the text, best first, ties in their order."""
        import tantivy

        words = sorted(set(self._analyzer.analyze(text)))
        if not words or not number:
            return []
        queries = (tantivy.Query.term_query(self._schema, "terms", w, index_option="freq") for w in words)
        query = tantivy.Query.boolean_query([(tantivy.Occur.Should, clause) for clause in queries])
        hits = self._searcher.search(query, number, count=False).hits
        ranked = sorted((-score, self._searcher.doc(address)["place"][0]) for score, address in hits)
        return [self._texts[position] for _, position in ranked]


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


def _line(item: dict[str, Any]) -> str | None:
    """An item of MedQA or PubMedQA on one line; None for anything else."""
    options = item.get("options")
    if (
        isinstance(options, dict)
        and isinstance(item.get("question"), str)
        and item.get("answer_idx") in options
    ):
        return f"{item['question']} {' '.join(f'({letter}) {text}' for letter, text in options.items())}"
    question, answer, decision = fields = [
        item.get(name) for name in ("QUESTION", "LONG_ANSWER", "final_decision")
    ]
    if not all(isinstance(field, str) for field in fields):
        return None
    contexts = item.get("CONTEXTS") or []
    context = f"Context: {' '.join(map(str, contexts))} " if isinstance(contexts, list) and contexts else ""
    return f"{context}Question: {question} Long answer: {answer} Decision: {decision}"
