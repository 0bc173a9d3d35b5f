"""What the words of a pair give away: that it was made from a graph, or copied from its prompt's example.

The paper's criteria "graphlet-based terminology" (BioGraphletQA, section 3.2.1) ask a model; this asks none, and so
knows only words that hardly mean anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kgqa_hpc.anchors.names import plain

COPIED = 8  # words in a row that nobody writes twice by chance

# "node", "edge" and "connection" also belong to anatomy, where another word beside them says so. The paper names
# "connections" as the fault it met most; of its 116 rated pairs 39 speak of a graph in these words.
_GRAPH = re.compile(
    r"\b(?:knowledge graph|(?:sub)?graph(?:let)?s?|vertex|vertices|triples?"
    r"|(?<!lymph )(?<!sinus )(?<!sinoatrial )(?<!sa )(?<!av )(?<!atrioventricular )(?<!sentinel )nodes?(?! of ranvier)"
    r"|(?:nodes and edges)|(?:by|via|through|an|the) edges?(?! of)|multi hop|(?:one|two|three|four|[0-9]) hops?"
    r"|(?<!neural )(?<!neuronal )(?<!synaptic )(?<!vascular )(?<!venous )(?<!brain )connections?"
    r"|(?:directly|indirectly) connected|(?:in|of) the (?:network|path|provided data))\b"
)
_NUMBER = re.compile(r"(?<=\w) ?\((?:node )?[0-9]\)")  # Ethanol (1): positions of nodes in the prompt


def graph_words(question: str, answer: str, names: Iterable[str]) -> list[str]:
    """The words and signs of a pair that speak of a graph, each once; those inside the names of nodes do not."""
    text = plain(f"{question}\n{answer}")
    for name in sorted(map(plain, names), key=len, reverse=True):
        text = text.replace(name, "something")
    return list(
        dict.fromkeys(match[0].strip() for match in (*_GRAPH.finditer(text), *_NUMBER.finditer(text)))
    )


def rows_of(texts: Iterable[str]) -> frozenset[tuple[str, ...]]:
    """Every COPIED words in a row that stand in any of the texts."""
    return frozenset(row for text in texts for row in _rows(text))


def is_copied(texts: Sequence[str], rows: frozenset[tuple[str, ...]]) -> bool:
    """Whether any of the texts has COPIED words in a row from where `rows` come from."""
    return any(row in rows for text in texts for row in _rows(text))


def _rows(text: str) -> list[tuple[str, ...]]:
    words = re.findall(r"\w+", plain(text))
    return [tuple(words[start : start + COPIED]) for start in range(len(words) - COPIED + 1)]
