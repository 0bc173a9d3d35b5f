"""The topic of each record's source title, as a column for a balanced sample (QAProt, Algorithm 1 and Appendix E).

Titles are clustered over all records of the run's source, so each worker finds the same topics; a pair has the topic of
its title. With `dataset: {debias: {columns: [topic], number: N}}` rare topics weigh more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from kgqa_hpc.anchors.records import read_records
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import InputError
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Step

TERMS = 3  # terms in the name of a topic
NO_TOPIC = "none"  # topic of a record without a title


class TopicSettings(StepSettings):
    """Settings of a topic step: the texts to cluster and the number of topics."""

    source: str = Field(alias="from", description="Run or file of the records, as in anchors.from.")
    field: str = Field(
        "document_title",
        description="Column with the text to cluster; records with equal texts get the same topic.",
    )
    number: int = Field(22, ge=1, description="Number of topics (clusters of k-means).")
    model: str | None = Field(
        None,
        description="Folder of an embedding model, such as BioMedBERT (extra embeddings); default: TF-IDF.",
    )
    paths = ("from", "source", "model")


class Topic(Step):
    """Adds the topic of a record's text, without a model request."""

    name = "topic"
    Settings = TopicSettings
    adds = "column"
    columns = (
        Column("topic", "string", "Topic of the source's title: a number by size, and its strongest terms."),
    )

    def __init__(self, settings: Any, prompt: Any, context: Any) -> None:
        super().__init__(settings, prompt, context)
        self._topics: dict[str, str] | None = None

    def compute(self, item: Item) -> Outcome:
        """Add the topic; the first call clusters all texts. Raises InputError for a source without any."""
        if self._topics is None:
            self._topics = _topics(self.settings, self.context.run_seed)
        item.annotations["topic"] = self._topics.get(item.output.get(self.settings.field) or "", NO_TOPIC)
        return Done()


def _topics(settings: TopicSettings, seed: int) -> dict[str, str]:
    """The topic of each different text."""
    from kgqa_hpc.plugins.evaluation.embeddings import embed
    from kgqa_hpc.plugins.evaluation.topics import find_topics

    texts = sorted(
        {text for record in read_records(Path(settings.source)) if (text := record.get(settings.field))}
    )
    if not texts:
        raise InputError(
            f"{settings.source}: no record has a text {settings.field!r}", "name another `field`"
        )
    vectors = None if settings.model is None else embed(Path(settings.model), texts)
    model = find_topics(texts, settings.number, seed=seed, embeddings=vectors)
    names = [f"{number}: {', '.join(terms[:TERMS])}" for number, terms in enumerate(model.terms, start=1)]
    return {text: names[label] for text, label in zip(texts, model.labels.tolist(), strict=True)}
