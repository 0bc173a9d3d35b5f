"""Read the documents of a pair, one after another: does it support the pair, and by which words?

One question per pair and document (BioGraphletQA, 3.4). The model copies passages; each is looked for in the
document, and one that does not stand there word for word is dropped and counted. So a quote in a record is a
quote, with its place in the document's text.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from kgqa_hpc.columns import Column
from kgqa_hpc.documents.quotes import QuotableText
from kgqa_hpc.prompts.safe_text import TEXT_LENGTH, clean_text
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.judge import PAIR, pair_variables
from kgqa_hpc.steps.retrieve import MOST
from kgqa_hpc.steps.step import Ask, Done, Outcome, Reject, Step

SNIPPET = {"text": "string", "start": "int64", "end": "int64"}


class GroundSettings(StepSettings):
    """How much is read, and how much support is enough."""

    k: int = Field(10, ge=1, le=MOST, description="Documents that are read of each pair, best first.")
    characters: int = Field(
        TEXT_LENGTH, ge=200, le=20_000, description="Of a document's text that are shown."
    )
    minimum: int = Field(0, ge=0, description="Reject pairs with fewer relevant documents.")


class Ground(Step):
    """Marks each document as relevant or not, with verified quotes."""

    name = "ground"
    Settings = GroundSettings
    default_prompt = "ground"
    answer = {"relevant": "boolean", "snippets": "array"}
    adds = "annotation"
    needs = (*PAIR, "documents")
    columns = (
        Column(
            "documents",
            [{"id": "string", "rank": "int64", "score": "double", "relevant": "bool", "snippets": [SNIPPET]}],
            "Documents found for the pair; whether each supports it, and its words that do, by their place.",
        ),
        Column("relevant_documents", "int64", "How many of the documents that were read support the pair."),
        Column("quotes_kept", "int64", "Quotes that stand in their document word for word."),
        Column("quotes_dropped", "int64", "Quotes that the model made up or altered; they are left out."),
    )

    def __init__(self, settings: Any, prompt: Any, context: Any) -> None:
        super().__init__(settings, prompt, context)
        self.turns = settings.k

    def asks_about(self, item: Item) -> bool:
        return bool(item.output["documents"])

    def compute(self, item: Item) -> Outcome:
        """Of a pair for which nothing was found."""
        return self._end(item)

    def variables(self, item: Item) -> dict[str, Any]:
        document = item.output["documents"][item.state.get("read", 0)]
        return {
            **pair_variables(item),
            "title": clean_text(document["title"], TEXT_LENGTH),
            "text": clean_text(document["text"], self.settings.characters),
        }

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        read = item.state.get("read", 0)
        documents = list(item.output["documents"])
        kept, dropped = (
            _quotes(documents[read]["text"], answer["snippets"]) if answer["relevant"] else ([], 0)
        )
        documents[read] = {**documents[read], "relevant": answer["relevant"], "snippets": kept}
        item.output["documents"] = documents
        counts = item.annotations
        counts["quotes_kept"] = counts.get("quotes_kept", 0) + len(kept)
        counts["quotes_dropped"] = counts.get("quotes_dropped", 0) + dropped
        item.state["read"] = read + 1
        return Ask() if read + 1 < min(len(documents), self.settings.k) else self._end(item)

    def _end(self, item: Item) -> Outcome:
        relevant = sum(bool(document.get("relevant")) for document in item.output["documents"])
        found = {"quotes_kept": 0, "quotes_dropped": 0, **item.annotations}
        item.annotations |= {**found, "relevant_documents": relevant}
        if relevant < self.settings.minimum:
            return Reject(f"{self.label}: too few relevant documents")
        return Done()


def _quotes(text: str, snippets: list[str]) -> tuple[list[dict[str, Any]], int]:
    """The different quotes that stand in the text, in its order, and how many do not."""
    quotable = QuotableText(text)
    found = [quotable.find(snippet) for snippet in snippets]
    quotes = sorted({(quote.start, quote.end, quote.text) for quote in found if quote is not None})
    return [{"text": words, "start": start, "end": end} for start, end, words in quotes], found.count(None)
