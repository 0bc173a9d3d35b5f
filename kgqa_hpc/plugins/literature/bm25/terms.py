"""Tokenizer of documents and queries, and the BM25 weight of a term.

Words are runs of letters and digits, lower case, without English stop words (the list of tantivy, Lucene's);
stemmed only when asked for. BM25 as in Robertson and Zaragoza (2009) with Lucene's idf, which is never
negative; k1 and b are fixed in tantivy.
"""

from __future__ import annotations

import math
from importlib.metadata import version
from typing import Any

import tantivy

K1 = 1.2
B = 0.75
TOKENIZER = "kgqa"
# Longer runs of letters are sequences or damage, not words.
LONGEST_TERM = 255


def parameters(stem: bool) -> dict[str, Any]:
    """Parameters of terms and scores, for the provenance."""
    return {
        "k1": K1,
        "b": B,
        "idf": "ln(1 + (N - n + 0.5) / (n + 0.5))",
        "terms": "runs of letters and digits, lower case",
        "stop_words": "english",
        "stemmer": "english" if stem else None,
        "longest_term_bytes": LONGEST_TERM,
        "engine": f"tantivy {version('tantivy')}",
    }


def analyzer(stem: bool) -> tantivy.TextAnalyzer:
    """The same text gives the same terms, in a document and in a query."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    builder = builder.filter(tantivy.Filter.remove_long(LONGEST_TERM + 1))
    builder = builder.filter(tantivy.Filter.lowercase()).filter(tantivy.Filter.stopword("english"))
    if stem:
        builder = builder.filter(tantivy.Filter.stemmer("english"))
    return builder.build()


def idf(documents: int, containing: int) -> float:
    """Inverse document frequency of a term that `containing` of `documents` contain."""
    return math.log(1 + (documents - containing + 0.5) / (containing + 0.5))


def saturation(frequency: int, length: int, average_length: float) -> float:
    """BM25 weight, before the idf, of a term that occurs `frequency` times in a document of `length` terms."""
    return frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * length / average_length))
