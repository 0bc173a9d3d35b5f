"""Topics of texts: vectors, k-means, the strongest terms of each topic; and the step that adds them to records.

Vectors are TF-IDF over words (lower-case runs of letters and digits), or embeddings by a model on this machine: the
mean of its last hidden states, also for models of sentence-transformers that pool otherwise (Reimers and Gurevych
2019). torch and transformers (the extra `embeddings`) are imported here and nowhere else in the package. K-means is
spherical (Dhillon and Modha 2001): vectors of length one, cosine, seeded by k-means++. QAProt finds about 22 topics.

The step gives each record the topic of its source's title, for a balanced sample (QAProt, Algorithm 1 and Appendix E).
Titles are clustered over all records of the run's source, so each worker finds the same topics. With
`dataset: {debias: {columns: [topic], number: N}}` rare topics weigh more.
"""

import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from kgqa_hpc.anchors.records import read_records
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.agreement import Floats
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Step

ROUNDS = 100
TERMS = 8  # terms shown per topic
BATCH = 32
TOKENS = 512  # maximum tokens of a text that the embedding model reads
# Stop words of questions.
_STOP_WORDS = """
a about after also among an and any are as at be been between both but by can could do does during
each for from given had has have how in into is it its may might more most not of on or other over
role some such than that the their them then there these they this those through to under via was
were what when where which while who whose why will with within would
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
_WORD = re.compile(r"\w+")

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Topics:
    """The result of clustering: `labels` (n,), the topic of each text; for each topic its size and its strongest terms.

    `effective` is the exponential of the entropy of the sizes: the number of equally large topics with that entropy.
    """

    labels: NDArray[np.int64]
    sizes: tuple[int, ...]
    terms: tuple[tuple[str, ...], ...]
    effective: float


def words(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return _WORD.findall(text.lower())


def tf_idf(texts: Sequence[str], *, min_texts: int = 2) -> tuple[Any, list[str]]:
    """Sparse rows of length one (n, terms) and the terms, sorted, of those in `min_texts` texts or more.

    Weights are (1 + ln tf) (ln((1 + n) / (1 + df)) + 1). Texts without a known term are rows of zeros.
    """
    from scipy.sparse import csr_matrix

    numbers: dict[str, int] = {}
    ends, codes = [0], array("q")  # an array, because there may be a hundred million words
    for text in texts:
        chosen = (word for word in words(text) if word not in STOP_WORDS and not word.isdigit())
        codes.extend(numbers.setdefault(word, len(numbers)) for word in chosen)
        ends.append(len(codes))
    terms = sorted(numbers)
    order = [numbers[term] for term in terms]
    counts = csr_matrix((np.ones(len(codes)), codes, ends), shape=(len(texts), len(terms)))[:, order]
    counts.sum_duplicates()
    in_texts = counts.getnnz(axis=0)
    frequent = in_texts >= min_texts
    matrix = counts[:, frequent]
    idf = np.log((1 + len(texts)) / (1 + in_texts[frequent])) + 1
    matrix.data = (1 + np.log(matrix.data)) * idf[matrix.indices]
    norms = np.sqrt(matrix.multiply(matrix).sum(axis=1)).A1
    matrix.data /= np.repeat(norms, np.diff(matrix.indptr))
    return matrix, np.array(terms, object)[frequent].tolist()


def embed(folder: Path, texts: Sequence[str], progress: Progress | None = None) -> Floats:
    """One row of length one per text, (n, d), by the model in `folder`. Nothing is downloaded.

    The same texts give the same rows, in any order, up to rounding. Raises InputError without the extra, or for
    a folder that holds no model.
    """
    tokenizer, model, torch = _load(folder)
    longest = min(getattr(model.config, "max_position_embeddings", TOKENS), TOKENS)
    order = np.argsort([len(text) for text in texts], kind="stable")  # a batch has texts of similar lengths
    rows: list[Any] = [None] * len(texts)
    with torch.inference_mode():
        for start in range(0, len(texts), BATCH):
            positions = order[start : start + BATCH]
            chosen = [texts[position] for position in positions]
            sizes: Any = {"padding": True, "truncation": True, "max_length": longest}
            batch = tokenizer(chosen, return_tensors="pt", **sizes).to(model.device)
            hidden = model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            means = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
            unit = torch.nn.functional.normalize(means.double(), dim=1).cpu().numpy()
            for position, row in zip(positions, unit, strict=True):
                rows[position] = row
            if progress is not None:
                progress(start + len(positions), len(texts), "embeddings")
    return np.array(rows, dtype=np.float64).reshape(len(texts), -1)


def _load(folder: Path) -> tuple[Any, Any, Any]:
    """Tokenizer, model and torch."""
    try:
        import torch
        from transformers import AutoModel, AutoTokenizer
    except ImportError as problem:
        text = f"embeddings need torch and transformers: {problem}"
        raise InputError(text, "pip install 'kgqa_hpc[embeddings]'") from None
    if not (folder / "config.json").is_file():
        cure = "fetch one first, e.g. hf download sentence-transformers/all-MiniLM-L6-v2 --local-dir FOLDER"
        raise InputError(f"{folder}: is no folder of a model (it has no config.json)", cure)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModel.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as problem:
        text = f"{folder}: transformers cannot load it: {str(problem).splitlines()[0]}"
        cure = "give a model of transformers or sentence-transformers with its tokenizer"
        raise InputError(text, cure) from None
    model = model.get_encoder() if model.config.is_encoder_decoder else model
    return tokenizer, model.eval().to("cuda" if torch.cuda.is_available() else "cpu"), torch


def find_topics(
    texts: Sequence[str], number: int = 22, *, seed: int = 0, embeddings: Floats | None = None
) -> Topics:
    """Topics of texts by k-means on TF-IDF, or on `embeddings` (n, d). The same seed gives the same topics.

    Terms are selected by TF-IDF in either case. There are fewer topics if there are fewer different texts.
    """
    vectors, names = tf_idf(texts)
    labels = spherical_k_means(vectors if embeddings is None else embeddings, number, seed=seed)
    sizes = np.bincount(labels)
    strongest = []
    for topic in range(len(sizes)):
        centre = np.asarray(vectors[labels == topic].sum(axis=0)).ravel()
        order = np.argsort(-centre, kind="stable")[:TERMS]
        strongest.append(tuple(names[j] for j in order if centre[j] > 0))
    shares = sizes / sizes.sum()
    effective = float(np.exp(-(shares * np.log(shares)).sum()))
    return Topics(labels, tuple(sizes.tolist()), tuple(strongest), effective)


def spherical_k_means(vectors: Any, number: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Clusters of rows of length one (n, d), dense or sparse; labels 0, 1 … by falling size, none empty."""
    from scipy.sparse import csr_matrix

    items = vectors.shape[0]
    ones, rng = np.ones(items), np.random.default_rng(seed)
    centres = _spread_out(vectors, min(number, items), rng)
    labels = np.full(items, -1, dtype=np.int64)
    for _ in range(ROUNDS):
        nearest = np.argmax(np.asarray(vectors @ centres.T), axis=1)
        if np.array_equal(nearest, labels):
            break
        labels = nearest.astype(np.int64)
        # Mean directions of the clusters; an empty cluster keeps its centre.
        member = csr_matrix((ones, (labels, np.arange(items))), shape=(len(centres), items))
        sums = _dense(member @ vectors)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        centres = np.where(norms > 0, sums / np.where(norms > 0, norms, 1), centres)
    names, members, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    rank = np.empty(len(names), dtype=np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(names))
    return rank[members]


def _spread_out(vectors: Any, number: int, rng: np.random.Generator) -> Floats:
    """Rows as first centres, far from each other (k-means++ on cosine distance)."""
    chosen = [int(rng.integers(vectors.shape[0]))]
    distance = np.full(vectors.shape[0], np.inf)
    while len(chosen) < number:
        similarity = np.asarray(vectors @ _dense(vectors[[chosen[-1]]]).T).ravel()
        distance = np.minimum(distance, np.maximum(1 - similarity, 0))
        if distance.sum() <= 1e-9:
            break
        chosen.append(int(rng.choice(len(distance), p=distance / distance.sum())))
    return _dense(vectors[chosen])


def _dense(matrix: Any) -> Floats:
    return np.asarray(matrix.todense() if hasattr(matrix, "todense") else matrix, dtype=np.float64)


NAME_TERMS = 3  # terms in the name of a topic
NO_TOPIC = "none"  # topic of a record without a title


class TopicSettings(StepSettings):
    """Texts to cluster, and the number of topics."""

    source: str = Field(alias="from", description="Run or file of the records, as in anchors.from.")
    field: str = Field("document_title", description="Column with the text to cluster.")
    number: int = Field(22, ge=1, description="Topics (clusters of k-means).")
    model: str | None = Field(
        None, description="Folder of an embedding model (extra embeddings); default: TF-IDF."
    )
    paths = ("from", "source", "model")


class Topic(Step):
    """Adds the topic of a record's text."""

    name = "topic"
    Settings = TopicSettings
    adds = "column"
    columns = (
        Column("topic", "string", "Topic of the source's title: a number by size, and its strongest terms."),
    )

    def compute(self, item: Item) -> Outcome:
        """Add the topic."""
        item.annotations["topic"] = self._topics.get(item.output.get(self.settings.field) or "", NO_TOPIC)
        return Done()

    @cached_property
    def _topics(self) -> dict[str, str]:
        """The topic of each different text. Raises InputError for a source without any."""
        settings = self.settings
        values = {record.get(settings.field) for record in read_records(Path(settings.source))}
        texts = sorted(filter(None, values))
        if not texts:
            problem = f"{settings.source}: no record has a text {settings.field!r}"
            raise InputError(problem, "name another `field`")
        vectors = None if settings.model is None else embed(Path(settings.model), texts)
        topics = find_topics(texts, settings.number, seed=self.context.run_seed, embeddings=vectors)
        names = [f"{n}: {', '.join(terms[:NAME_TERMS])}" for n, terms in enumerate(topics.terms, start=1)]
        return {text: names[label] for text, label in zip(texts, topics.labels.tolist(), strict=True)}
