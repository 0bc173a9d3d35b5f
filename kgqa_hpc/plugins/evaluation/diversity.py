"""Diversity of texts (distinct n-grams, type-token curve, self-BLEU, Vendi score, topics), of one or two datasets.

All measures depend on the number of texts, so two datasets are compared over equally many texts of each. The figures
are type-token curves, and topics on a UMAP of the texts (QAProt, Figures 2 and 3a). Sources: distinct-n, Li et al.
(2016); type-token curves as in QAProt's Figure 2d; self-BLEU, Zhu et al. (2018); Vendi, Friedman and Dieng (2023).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.agreement import Floats
from kgqa_hpc.plugins.evaluation.analysis import svg_figure
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.plugins.evaluation.topic import Topics, embed, find_topics, tf_idf, words
from kgqa_hpc.store.atomic import make_folder
from kgqa_hpc.terminal import note, stage_progress
from kgqa_hpc.text.plain_text import aligned

ORDER = 4  # the longest n-grams of distinct-n


def distinct_n(texts: Sequence[str], n: int) -> float | None:
    """Distinct n-grams divided by all n-grams, within texts; None if there is none."""
    total, distinct = 0, set[tuple[str, ...]]()
    for text in texts:
        tokens = words(text)
        grams = list(zip(*(tokens[start:] for start in range(n)), strict=False))
        total += len(grams)
        distinct.update(grams)
    return len(distinct) / total if total else None


def type_token_curve(texts: Sequence[str], points: int = 50, seed: int = 0) -> list[tuple[int, float]]:
    """(tokens, types / tokens) at about evenly spaced points while texts are read in seeded random order."""
    marks = set(np.linspace(1, len(texts), min(points, len(texts))).astype(int).tolist())
    curve, types, tokens = [], set[str](), 0
    for number, position in enumerate(np.random.default_rng(seed).permutation(len(texts)), start=1):
        read = words(texts[position])
        tokens += len(read)
        types.update(read)
        if number in marks and tokens:
            curve.append((tokens, len(types) / tokens))
    return curve


def self_bleu(texts: Sequence[str], *, sample: int = 500, seed: int = 0) -> float | None:
    """Mean BLEU-4 (0 to 100) of each text against all the others: high is repetitive. None below two texts.

    Of more than `sample` texts a seeded sample is taken, and compared within itself. BLEU is sacrebleu's
    sentence BLEU (clipped counts over all references, nearest length, exponential smoothing).
    """
    from sacrebleu.metrics.bleu import BLEU

    lines = [" ".join(words(texts[i])) for i in drawn(len(texts), sample, seed)]
    if len(lines) < 2:
        return None
    bleu = BLEU(effective_order=True, tokenize="none")
    scores = [bleu.sentence_score(line, lines[:i] + lines[i + 1 :]).score for i, line in enumerate(lines)]
    return float(np.mean(scores))


def vendi_score(vectors: Floats) -> float | None:
    """The effective number of different rows of `vectors` (n, d) by cosine: 1 if all equal, n if orthogonal.

    The exponential of the entropy of the eigenvalues of the similarity matrix over n, taken from the smaller
    of the two Gram matrices. Rows of zeros are left out; None without any other.
    """
    norms = np.linalg.norm(vectors, axis=1)
    rows = vectors[norms > 0] / norms[norms > 0][:, None]
    if not len(rows):
        return None
    gram = rows @ rows.T if rows.shape[0] <= rows.shape[1] else rows.T @ rows
    values = np.linalg.eigvalsh(gram / len(rows))
    positive = values[values > 1e-12]
    return float(np.exp(-(positive * np.log(positive)).sum()))


def drawn(texts: int, number: int, seed: int) -> np.ndarray:
    """Positions of `number` of the texts, drawn by the seed, ascending; all positions if there are fewer texts."""
    if texts <= number:
        return np.arange(texts)
    return np.sort(np.random.default_rng(seed).choice(texts, number, replace=False))


_VENDI_TEXTS = 1000  # maximum texts of a Vendi score: its similarity matrix has a row and a column for each
_POINTS = 20_000  # texts on a map, as in QAProt's Figure 4
_FEWEST = 10  # minimum texts of a map
_NEIGHBOURS = 15  # n_neighbors of UMAP: its default


def variety(
    source: Path,
    against: Path | None = None,
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
    cannot be loaded.
    """
    texts = {str(path): _texts(path, field) for path in (source, against) if path is not None}
    number = min(map(len, texts.values()))
    results, maps = {}, {}
    for name, group_texts in texts.items():
        chosen = [group_texts[i] for i in drawn(len(group_texts), number, seed)]
        embeddings = None
        if model is not None:
            with stage_progress() as progress:
                embeddings = embed(model, chosen, progress)
        grouped = find_topics(chosen, topics, seed=seed, embeddings=embeddings)
        results[name] = measures(chosen, grouped, seed, embeddings)
        if figures is not None:
            vectors = tf_idf(chosen)[0] if embeddings is None else embeddings
            maps[name] = _map(vectors, grouped.labels, seed)
    counts = {name: len(group_texts) for name, group_texts in texts.items()}
    document = {"field": field, "vectors": str(model or "TF-IDF"), "texts": counts, "measures": results}
    return document if figures is None else {**document, "figures": _write_figures(results, maps, figures)}


def measures(
    texts: Sequence[str], grouped: Topics, seed: int = 0, embeddings: Floats | None = None
) -> dict[str, Any]:
    """distinct-n, type-token curve, self-BLEU, Vendi score and the topics that `texts` are `grouped` into.

    The Vendi score is of `embeddings` (n, d) where they are given, else of TF-IDF vectors.
    """
    tokens = Counter(word for text in texts for word in words(text))
    few = drawn(len(texts), _VENDI_TEXTS, seed)
    if embeddings is None:
        vectors = tf_idf([texts[i] for i in few], min_texts=1)[0].toarray()
    else:
        vectors = embeddings[few]
    topics = zip(grouped.sizes, grouped.terms, strict=True)
    return {
        "texts": len(texts),
        "tokens": tokens.total(),
        "types": len(tokens),
        "distinct": {str(n): distinct_n(texts, n) for n in range(1, ORDER + 1)},
        "self_bleu": self_bleu(texts, seed=seed),
        "vendi": vendi_score(vectors),
        "type_token_curve": type_token_curve(texts, 20, seed),
        "effective_topics": grouped.effective,
        "topics": [{"texts": size, "terms": list(terms)} for size, terms in topics],
    }


def _texts(source: Path, field: str) -> list[str]:
    values = (record.get(field) for record in records(source) if record.get("accepted", True))
    texts = [text for text in values if isinstance(text, str) and text.strip()]
    if not texts:
        raise InputError(f"{source}: no accepted record has a text {field!r}", "name another with --field")
    return texts


_Map = tuple[Any, NDArray[np.int64]]  # positions (n, 2) of texts and their topics (n,)


def _map(vectors: Any, labels: NDArray[np.int64], seed: int) -> _Map | None:
    """A map of texts from their vectors (n, d) and topics (n,); None without umap-learn, or for too few texts."""
    try:
        from umap import UMAP
    except ImportError:
        note("topics.svg needs umap-learn: pip install 'kgqa_hpc[umap]'")
        return None
    # Texts without a known term have a vector of zeros and are not on the map.
    rows = np.flatnonzero(np.asarray(abs(vectors).sum(axis=1)).ravel())
    rows = rows[drawn(len(rows), _POINTS, seed)]
    if len(rows) < _FEWEST:
        note(f"topics.svg needs {_FEWEST} texts or more")
        return None
    mapper = UMAP(n_neighbors=min(_NEIGHBOURS, len(rows) - 1), metric="cosine", random_state=seed, n_jobs=1)
    return mapper.fit_transform(vectors[rows]), labels[rows]


def _write_figures(
    results: Mapping[str, dict[str, Any]], maps: Mapping[str, _Map | None], folder: Path
) -> list[str]:
    """Write type_token.svg and, where there are `maps`, topics.svg into `folder`; returns their paths."""
    make_folder(folder)
    paths = [folder / "type_token.svg"]
    with svg_figure(paths[0], width=5.6) as figure:
        axes = figure.subplots()
        for name, result in results.items():
            axes.plot(*zip(*result["type_token_curve"], strict=True), label=name)
        axes.set(xlabel="words read", ylabel="different words / words", ylim=(0, None))
        axes.legend(frameon=False)
    if drawn_maps := {name: points for name, points in maps.items() if points is not None}:
        paths.append(folder / "topics.svg")
        with svg_figure(paths[1], width=4.2 * len(drawn_maps), height=4.2) as figure:
            panels = figure.subplots(1, len(drawn_maps), squeeze=False)[0]
            for axes, (name, (points, labels)) in zip(panels, drawn_maps.items(), strict=True):
                look: Any = {"cmap": "nipy_spectral", "s": 4, "linewidths": 0, "rasterized": True}
                axes.scatter(points[:, 0], points[:, 1], c=labels, **look)
                title = f"{name}: {len(points):,} texts, {labels.max() + 1} topics"
                axes.set(title=title, xticks=[], yticks=[])
    return [str(path) for path in paths]


def render(document: dict[str, Any]) -> str:
    """The measures as text: a table with one column per dataset, and the topics of each dataset."""
    columns = document["measures"]
    counts = {"texts": "texts", "words": "tokens", "different words": "types"}
    shares = {"self-BLEU": "self_bleu", "Vendi score": "vendi", "effective topics": "effective_topics"}
    values = {f"distinct-{n}": [c["distinct"][str(n)] for c in columns.values()] for n in range(1, ORDER + 1)}
    values |= {title: [column[key] for column in columns.values()] for title, key in shares.items()}
    rows = [(title, *(f"{column[key]:,}" for column in columns.values())) for title, key in counts.items()]
    for title, numbers in values.items():
        texts = ("none" if n is None else f"{n:.3f}" if n < 10 else f"{n:.1f}" for n in numbers)
        rows.append((title, *texts))
    lines = [f"{document['field']}s of {', '.join(columns)}; topics and Vendi score by {document['vectors']}"]
    lines += aligned(rows)
    for name, column in columns.items():
        lines.append(f"topics of {name}")
        lines += [f"{topic['texts']:>8,}  {' '.join(topic['terms'])}" for topic in column["topics"]]
    return "\n".join(lines)
