"""Steps `retrieve`, documents for a pair, and `ground`, a model that marks their relevance and supporting quotes.

The engine of `retrieve` is an index (engine.py), so it needs a pass of its own. The query is the user block of the
prompt: question and answer together, as published (BioGraphletQA, 3.4; the ten best by BM25).

To ground a pair, a model reads its documents one by one: one question per pair and document (BioGraphletQA, 3.4). The
model copies passages; each is looked for in the document, and one that does not stand there word for word is dropped
and counted. Or, where the prompt's schema has numbers for `snippets`, it names sentences of the document by number; one
that is not there is dropped and counted too. So every quote in a record is literal, with its offsets in the document's
text.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import Field

from kgqa_hpc.columns import Column
from kgqa_hpc.engines.engine import Request
from kgqa_hpc.plugins.literature.document import QuotableText, Span, sentences
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.pair import PAIR, pair_variables
from kgqa_hpc.steps.step import Ask, Done, Outcome, Reject, Step
from kgqa_hpc.text.plain_text import TEXT_LENGTH, clean_text

MOST = 100  # documents that a prompt's schema may ask for


class RetrieveSettings(StepSettings):
    """Settings of the step retrieve: the number of documents."""

    k: int = Field(10, ge=1, le=MOST, description="Documents per pair, the best first.")


class Retrieve(Step):
    """Adds the documents that match question and answer best."""

    name = "retrieve"
    Settings = RetrieveSettings
    default_prompt = "retrieve"
    answer = {"documents": "array"}
    adds = "output"
    gives = ("documents",)
    needs = PAIR
    columns = (
        Column(
            "documents",
            [{"id": "string", "rank": "int64", "score": "double"}],
            "Documents found for the pair, best first.",
        ),
    )
    example = {"documents": [{"id": "1", "rank": 1, "score": 1.0, "title": "A title.", "text": "A text."}]}

    def variables(self, item: Item) -> dict[str, Any]:
        return pair_variables(item)

    def request(self, item: Item, attempt: int, turn: int = 0) -> Request:
        """The prompt's request for `k` documents."""
        request = super().request(item, attempt, turn)
        properties = self.prompt.schema["properties"]
        documents = {**properties["documents"], "maxItems": self.settings.k}
        schema = {**self.prompt.schema, "properties": {**properties, "documents": documents}}
        return request._replace(schema=schema)

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        """Keep the documents with their texts in the item, for the steps that read them."""
        hits = answer["documents"][: self.settings.k]
        item.output["documents"] = [{**hit, "rank": rank} for rank, hit in enumerate(hits, start=1)]
        return Done()

    def kept_text(self, text: str) -> str:
        """The answer without titles and texts: only ids and scores of the documents."""
        try:
            hits = orjson.loads(text)["documents"][: self.settings.k]
            short = [{"id": hit["id"], "score": hit["score"]} for hit in hits]
        except (ValueError, KeyError, TypeError):
            return text
        return orjson.dumps({"documents": short}).decode()

    def restore(self, item: Item, output: Mapping[str, Any]) -> None:
        """Put the documents with their texts back into the item; documents of a source record, without texts, stay as
        they are.
        """
        names = ("id", "score", "title", "text", "rank")
        hits = output.get("documents")
        if hits is not None and all("text" in hit for hit in hits):
            item.output["documents"] = [{name: hit[name] for name in names} for hit in hits]


SENTENCES = 100  # maximum numbered sentences of a document, unless the prompt's schema sets it
SNIPPET = {"text": "string", "start": "int64", "end": "int64"}


class GroundSettings(StepSettings):
    """Settings of the step ground: amount of text, and the required support."""

    k: int = Field(10, ge=1, le=MOST, description="Documents per pair, the best first.")
    characters: int = Field(
        TEXT_LENGTH, ge=200, le=20_000, description="Maximum characters of a document in the prompt."
    )
    minimum: int = Field(0, ge=0, description="Minimum relevant documents; a pair with fewer is rejected.")


class Ground(Step):
    """Marks each document of a pair as relevant or not, with verified quotes."""

    name = "ground"
    Settings = GroundSettings
    default_prompt = "ground"
    answer = {"relevant": "boolean", "snippets": "array"}
    adds = "column"
    needs = (*PAIR, "documents")
    columns = (
        Column(
            "documents",
            [{"id": "string", "rank": "int64", "score": "double", "relevant": "bool", "snippets": [SNIPPET]}],
            "Documents found for the pair: whether each supports it, and supporting quotes with offsets.",
        ),
        Column("relevant_documents", "int64", "How many of the documents that were read support the pair."),
        Column("quotes_kept", "int64", "Quotes that stand in their document word for word."),
        Column("quotes_dropped", "int64", "Quotes that the model made up or altered; they are left out."),
    )

    def __init__(self, settings: Any, prompt: Any, context: Any) -> None:
        super().__init__(settings, prompt, context)
        self.turns = settings.k
        snippets = prompt.schema["properties"]["snippets"]
        self._by_number = snippets["items"]["type"] == "integer"
        most = snippets["items"].get("maximum", SENTENCES) if self._by_number else 0
        # One schema per number of sentences, made once, because engines compile each new schema.
        self._schemas = [_for_sentences(prompt.schema, number) for number in range(most + 1)]

    def asks_about(self, item: Item) -> bool:
        return bool(item.output["documents"])

    def compute(self, item: Item) -> Outcome:
        """End the step for a pair without documents."""
        return self._end(item)

    def variables(self, item: Item) -> dict[str, Any]:
        document = item.output["documents"][item.state.get("read", 0)]
        return {
            **pair_variables(item),
            "title": clean_text(document["title"], TEXT_LENGTH),
            "text": clean_text(document["text"], self.settings.characters),
            "sentences": [clean_text(s.text, TEXT_LENGTH) for s in self._sentences(document["text"])],
        }

    def request(self, item: Item, attempt: int, turn: int = 0) -> Request:
        """The prompt's request; if passages are named by number, the schema allows this document's numbers only."""
        request = super().request(item, attempt, turn)
        if not self._by_number:
            return request
        text = item.output["documents"][item.state.get("read", 0)]["text"]
        return request._replace(schema=self._schemas[len(self._sentences(text))])

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        read = item.state.get("read", 0)
        documents = list(item.output["documents"])
        text, named = documents[read]["text"], answer["snippets"] if answer["relevant"] else []
        located: list[Span | None]  # None for a quote that does not occur
        if self._by_number:
            numbered = dict(enumerate(self._sentences(text), start=1))
            located = [numbered.get(number) for number in named]
        else:
            quotable = QuotableText(text)
            located = [quotable.find(snippet) for snippet in named]
        distinct = sorted({quote for quote in located if quote is not None})
        quotes = [{"text": words, "start": start, "end": end} for start, end, words in distinct]
        documents[read] = {**documents[read], "relevant": answer["relevant"], "snippets": quotes}
        item.output["documents"] = documents
        counts = item.annotations
        counts["quotes_kept"] = counts.get("quotes_kept", 0) + len(quotes)
        counts["quotes_dropped"] = counts.get("quotes_dropped", 0) + located.count(None)
        item.state["read"] = read + 1
        return Ask() if read + 1 < min(len(documents), self.settings.k) else self._end(item)

    def _sentences(self, text: str) -> list[Span]:
        """The sentences that are shown with numbers."""
        return sentences(text[: self.settings.characters])[: len(self._schemas) - 1]

    def _end(self, item: Item) -> Outcome:
        relevant = sum(bool(document.get("relevant")) for document in item.output["documents"])
        counts = {"quotes_kept": 0, "quotes_dropped": 0, **item.annotations}
        item.annotations |= {**counts, "relevant_documents": relevant}
        if relevant < self.settings.minimum:
            return Reject(f"{self.label}: too few relevant documents")
        return Done()


def _for_sentences(schema: dict[str, Any], number: int) -> dict[str, Any]:
    """The schema of an answer that names some of the sentences 1 to `number`."""
    snippets = schema["properties"]["snippets"]
    items = {**snippets["items"], "minimum": 1, "maximum": max(number, 1)}
    few = {"minItems": 0, "maxItems": min(number, snippets["maxItems"]), "items": items}
    return {**schema, "properties": {**schema["properties"], "snippets": {**snippets, **few}}}
