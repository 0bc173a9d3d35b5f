"""What a template sees of an item, with every text from outside made harmless.

Names come from a graph, questions from a model: both are data. In a prompt they stay on their line and
cannot end a fence, close a listing, open a chat turn or be taken for template code.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from kgqa_hpc.anchors.anchor import Anchor, Node, Relation

NAME_LENGTH = (
    150  # characters; the length up to which the paper's hydrated names are usual (Appendix B, Figure 9)
)
TEXT_LENGTH = 8_000  # characters of a question or an answer shown to a judge; schemas bound them well below

# What nearly all names and sentences consist of: nothing here needs a closer look.
_UNUSUAL = re.compile(r"[^A-Za-z0-9 ,.;:()/+_%*&'?!α-ωΑ-Ω–-]")
_USUAL = bytes(code for code in range(128) if not _UNUSUAL.match(chr(code)))
_FENCE = re.compile(r"([`~=#\"'-])\1{2,}")
# A bracket that opens a chat turn (<|im_start|>, </s>, [INST]), a thought (<think>) or a template tag ({{,
# {%).
_OPENING = re.compile(r"<(?=[|/<｜A-Za-z])|\[(?=/?[A-Z_]+\])|\{(?=[{%#])|[|｜](?=>)|[}%#](?=\})")


def clean_text(text: str, longest: int = NAME_LENGTH) -> str:
    """`text` on one line, without hidden characters and markers, cut to `longest` with an ellipsis."""
    if len(text) <= longest and _is_usual(text):
        return text.strip()
    text = " ".join(text[: 4 * longest].split())
    if not text.isprintable():
        text = "".join(character for character in text if character.isprintable()).strip()
    text = _FENCE.sub(r"\1", text)
    text = _OPENING.sub(r"\g<0> ", text)
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


_clean_name = functools.lru_cache(maxsize=1 << 15)(clean_text)  # those of hubs and types come again and again


def _is_usual(text: str) -> bool:
    # For ASCII, what is left without the usual: several times as quick as the search, on a long answer.
    odd = text.encode().translate(None, _USUAL) if text.isascii() else _UNUSUAL.search(text)
    return not (odd or "---" in text or "'''" in text or "  " in text)


def anchor_variables(anchor: Anchor, edge_types: bool) -> dict[str, Any]:
    """Variables of every template, as plain tuples.

    nodes: (number, name, type); edges: (number, number); relations: (source number, target number, type),
    empty unless `edge_types`. Numbers are positions in the anchor.
    """
    nodes = [(number, _clean_name(n.name), _clean_name(n.type)) for number, n in enumerate(anchor.nodes)]
    relations = [(r.source, r.target, _clean_name(r.type)) for r in anchor.relations] if edge_types else []
    return {"nodes": nodes, "edges": anchor.edges, "relations": relations}


def pair_variables(output: dict[str, Any]) -> dict[str, Any]:
    """The question and answer that a judge sees, each on one line."""
    return {key: clean_text(output[key], TEXT_LENGTH) for key in ("question", "answer")}


SAMPLE_ANCHOR = Anchor(
    id="sample",
    kind="graphlet",
    shape=2,
    nodes=(
        Node("a", "First node", "Gene"),
        Node("b", "Second node", "Disease"),
        Node("c", "Third node", "Drug"),
    ),
    edges=((0, 1), (1, 2), (2, 0)),
    relations=(Relation(0, 1, "causes"), Relation(2, 1, "treats"), Relation(2, 0, "binds")),
)


def sample_variables(step: str, edge_types: bool) -> dict[str, Any]:
    """What a template of `step` will see, filled with a sample: a prompt is tried on it when it is loaded."""
    pair = {"question": "A question?", "answer": "An answer."} if step == "judge" else {}
    return anchor_variables(SAMPLE_ANCHOR, edge_types) | pair
