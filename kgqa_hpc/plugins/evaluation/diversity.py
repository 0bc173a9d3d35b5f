"""Diversity of texts: distinct n-grams, type-token curves, self-BLEU, the Vendi score.

Sources: distinct-n, Li et al. (2016); type-token curves as in QAProt's Figure 2d; self-BLEU, Zhu et al.
(2018); Vendi, Friedman and Dieng (2023). Words are lower-case runs of letters and digits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from kgqa_hpc.plugins.evaluation.bootstrap import Floats

ORDER = 4
_WORD = re.compile(r"\w+")
_Grams = Counter[tuple[str, ...]]


def words(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return _WORD.findall(text.lower())


def distinct_n(texts: Sequence[str], n: int) -> float | None:
    """Distinct n-grams divided by all n-grams, within texts; None if there is none."""
    seen: set[tuple[str, ...]] = set()
    total = 0
    for text in texts:
        grams = _ngrams(words(text), n)
        seen.update(grams)
        total += len(grams)
    return len(seen) / total if total else None


def type_token_curve(texts: Sequence[str], points: int = 50, seed: int = 0) -> list[tuple[int, float]]:
    """(tokens, types / tokens) at about evenly spaced points while texts are read in seeded random order."""
    order = np.random.default_rng(seed).permutation(len(texts))
    seen: set[str] = set()
    curve: list[tuple[int, float]] = []
    tokens = 0
    marks = {int(mark) for mark in np.linspace(1, len(texts), min(points, len(texts)))}
    for read, position in enumerate(order, start=1):
        text_words = words(texts[position])
        tokens += len(text_words)
        seen.update(text_words)
        if read in marks and tokens:
            curve.append((tokens, len(seen) / tokens))
    return curve


def self_bleu(texts: Sequence[str], *, sample: int = 500, seed: int = 0) -> float | None:
    """Mean BLEU-4 (0 to 100) of each text against all the others: high is repetitive. None below two texts.

    Of more than `sample` texts a seeded sample is taken, and compared within itself. BLEU is sacrebleu's
    sentence BLEU (clipped counts over all references, nearest length, exponential smoothing).
    """
    from sacrebleu.metrics.bleu import BLEU

    chosen = drawn(len(texts), sample, seed)
    if len(chosen) < 2:
        return None
    tokens = [words(texts[i]) for i in chosen]
    grams = [[Counter(_ngrams(text_tokens, n)) for n in range(1, ORDER + 1)] for text_tokens in tokens]
    tops = [_two_highest([text_tokens[n] for text_tokens in grams]) for n in range(ORDER)]
    lengths = np.sort([len(text_tokens) for text_tokens in tokens])
    scores = []
    for i, text_tokens in enumerate(grams):
        correct = [_clipped(i, text_tokens[n], tops[n]) for n in range(ORDER)]
        total = [text_tokens[n].total() for n in range(ORDER)]
        size = len(tokens[i])
        nearest = _nearest_other(lengths, size)
        bleu = BLEU.compute_bleu(correct, total, size, nearest, smooth_method="exp", effective_order=True)
        scores.append(bleu.score)
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


def _ngrams(tokens: list[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def _two_highest(grams: list[_Grams]) -> dict[tuple[str, ...], tuple[int, int, int]]:
    """For each n-gram the highest count in a text, that text's position, and the highest count in any other text."""
    highest: dict[tuple[str, ...], tuple[int, int, int]] = {}
    for i, counts in enumerate(grams):
        for gram, count in counts.items():
            high, owner, second = highest.get(gram, (0, -1, 0))
            highest[gram] = (count, i, high) if count > high else (high, owner, max(second, count))
    return highest


def _clipped(i: int, grams: _Grams, tops: dict[tuple[str, ...], tuple[int, int, int]]) -> int:
    total = 0
    for gram, count in grams.items():
        high, owner, second = tops[gram]
        total += min(count, second if owner == i else high)
    return total


def _nearest_other(lengths: np.ndarray, size: int) -> int:
    """The length nearest to `size` among the other texts; of two the shorter. `lengths` includes the text itself."""
    begin, right = np.searchsorted(lengths, size, side="left"), np.searchsorted(lengths, size, side="right")
    if right - begin > 1:
        return size
    around = [int(lengths[begin - 1])] if begin > 0 else []
    around += [int(lengths[right])] if right < len(lengths) else []
    return min(around, key=lambda length: (abs(length - size), length))
