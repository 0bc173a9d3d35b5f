"""Step `retrieve`: documents for a pair. Its engine is an index (engine.py), so it needs a pass of its own.

The query is what the prompt's user block says: question and answer together, as published (BioGraphletQA,
3.4; the ten best by BM25).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import Field

from kgqa_hpc.columns import Column
from kgqa_hpc.engines.engine import Request
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.judge import PAIR, pair_variables
from kgqa_hpc.steps.step import Done, Outcome, Step

MOST = 100  # documents that a prompt's schema may ask for


class RetrieveSettings(StepSettings):
    """Settings of retrieval: the number of documents."""

    k: int = Field(10, ge=1, le=MOST, description="Number of documents per pair, the best first.")


class Retrieve(Step):
    """Adds the documents that an index finds for question and answer."""

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

    def request(self, item: Item, attempt: int, run_seed: int, turn: int = 0) -> Request:
        """The prompt's request for `k` documents."""
        request = super().request(item, attempt, run_seed, turn)
        properties = self.prompt.schema["properties"]
        documents = {**properties["documents"], "maxItems": self.settings.k}
        return request._replace(
            schema={**self.prompt.schema, "properties": {**properties, "documents": documents}}
        )

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        """Keep the documents with their texts in the item, for the steps that read them."""
        hits = answer["documents"][: self.settings.k]
        item.output["documents"] = [{**hit, "rank": rank} for rank, hit in enumerate(hits, start=1)]
        return Done()

    def kept_text(self, text: str) -> str:
        """The ids and scores of the documents."""
        try:
            hits = orjson.loads(text)["documents"][: self.settings.k]
            short = [{"id": hit["id"], "score": hit["score"]} for hit in hits]
        except (ValueError, KeyError, TypeError):
            return text
        return orjson.dumps({"documents": short}).decode()

    def restore(self, item: Item, output: Mapping[str, Any]) -> None:
        """The documents with their texts. Those of a source record have no texts: they stay as they are."""
        names = ("id", "score", "title", "text", "rank")
        hits = output.get("documents")
        if hits is not None and all("text" in hit for hit in hits):
            item.output["documents"] = [{name: hit[name] for name in names} for hit in hits]
