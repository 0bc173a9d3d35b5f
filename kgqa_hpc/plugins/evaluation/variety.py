"""How varied the accepted questions of a dataset are, beside those of a second one: `kgqa diversity`.

Measures that depend on how many texts there are (all of these do) are taken over equally many of each dataset.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.bootstrap import Floats
from kgqa_hpc.plugins.evaluation.diversity import (
    distinct_n,
    drawn,
    self_bleu,
    type_token_curve,
    vendi_score,
    words,
)
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.plugins.evaluation.topics import Topics, find_topics, tf_idf
from kgqa_hpc.plugins.evaluation.variety_figures import Drawn, variety_figures
from kgqa_hpc.terminal import stage_progress

ORDERS = (1, 2, 3, 4)
VENDI_TEXTS = 1000  # its matrix is as wide as it has texts


def variety(
    source: Path,
    other: Path | None = None,
    *,
    field: str = "question",
    topics: int = 22,
    seed: int = 0,
    model: Path | None = None,
    figures: Path | None = None,
) -> dict[str, Any]:
    """The measures of each source (a merged run, or a file of JSON lines), as plain data.

    Topics and Vendi score are of TF-IDF vectors, or of embeddings where a `model`'s folder is given; `figures` is a
    folder for pictures. Raises InputError for a source without accepted records that have such a text, or a model that
    cannot be had.
    """
    texts = {str(path): _texts(path, field) for path in (source, other) if path is not None}
    number = min(map(len, texts.values()))
    results, pictured = {}, {}
    for name, group_texts in texts.items():
        chosen = [group_texts[i] for i in drawn(len(group_texts), number, seed)]
        embeddings = None if model is None else _embedded(model, chosen)
        grouped = find_topics(chosen, topics, seed=seed, embeddings=embeddings)
        results[name] = measures(chosen, grouped, seed, embeddings)
        vectors = tf_idf(chosen)[0] if embeddings is None else embeddings
        pictured[name] = Drawn(results[name]["type_token_curve"], vectors, grouped.labels)
    files = variety_figures(pictured, figures, seed) if figures else []
    counts = {name: len(group_texts) for name, group_texts in texts.items()}
    document = {"field": field, "vectors": str(model or "TF-IDF"), "texts": counts, "measures": results}
    return {**document, "figures": [str(file) for file in files]} if figures else document


def measures(
    texts: Sequence[str], grouped: Topics, seed: int = 0, embeddings: Floats | None = None
) -> dict[str, Any]:
    """distinct-n, type-token curve, self-BLEU, Vendi score and the topics that `texts` are `grouped` into.

    The Vendi score is of `embeddings` (n, d) where they are given, else of TF-IDF vectors.
    """
    tokens = [word for text in texts for word in words(text)]
    few = drawn(len(texts), VENDI_TEXTS, seed)
    if embeddings is None:
        vectors = tf_idf([texts[i] for i in few], min_texts=1)[0].toarray()
    else:
        vectors = embeddings[few]
    return {
        "texts": len(texts),
        "tokens": len(tokens),
        "types": len(set(tokens)),
        "distinct": {str(n): distinct_n(texts, n) for n in ORDERS},
        "self_bleu": self_bleu(texts, seed=seed),
        "vendi": vendi_score(vectors),
        "type_token_curve": type_token_curve(texts, 20, seed),
        "effective_topics": grouped.effective,
        "topics": [
            {"texts": size, "terms": list(terms)}
            for size, terms in zip(grouped.sizes, grouped.terms, strict=True)
        ],
    }


def _texts(source: Path, field: str) -> list[str]:
    values = (record.get(field) for record in records(source) if record.get("accepted", True))
    texts = [text for text in values if isinstance(text, str) and text.strip()]
    if not texts:
        raise InputError(f"{source}: no accepted record has a text {field!r}", "name another with --field")
    return texts


def _embedded(model: Path, texts: Sequence[str]) -> Floats:
    from kgqa_hpc.plugins.evaluation.embeddings import embed

    with stage_progress() as progress:
        return embed(model, texts, progress)


def render(document: dict[str, Any]) -> str:
    """A table, one column a dataset, and the topics of each."""
    columns = document["measures"]
    rows = [
        ("texts", [f"{column['texts']:,}" for column in columns.values()]),
        ("words", [f"{column['tokens']:,}" for column in columns.values()]),
        ("different words", [f"{column['types']:,}" for column in columns.values()]),
        *(
            (f"distinct-{n}", [_figure(column["distinct"][str(n)]) for column in columns.values()])
            for n in ORDERS
        ),
        ("self-BLEU", [_figure(column["self_bleu"]) for column in columns.values()]),
        ("Vendi score", [_figure(column["vendi"]) for column in columns.values()]),
        ("effective topics", [_figure(column["effective_topics"]) for column in columns.values()]),
    ]
    lines = [f"{document['field']}s of {', '.join(columns)}; topics and Vendi score by {document['vectors']}"]
    lines += [f"{name:<18}" + "".join(f"{cell:>12}" for cell in cells) for name, cells in rows]
    for name, column in columns.items():
        lines.append(f"topics of {name}")
        lines += [f"{topic['texts']:>8,}  {' '.join(topic['terms'])}" for topic in column["topics"]]
    return "\n".join(lines)


def _figure(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"
