"""What all question families share: ids and random order by content, difficulty, rules for the wording, distractors."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from heapq import merge
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from kgqa_hpc.anchors.anchor import Anchor, Drawn, short_digest
from kgqa_hpc.anchors.names import named, plain
from kgqa_hpc.columns import Column

if TYPE_CHECKING:
    from kgqa_hpc.kg.graph import KnowledgeGraph

T = TypeVar("T")
DIFFICULTY = (
    Column("difficulty", "string", "easy, medium or hard."),
    Column("inference_steps", "int64", "Facts that must be put together to reach the answer."),
    Column("graph_nodes_used", "int64", "Nodes of the graph that the question rests on."),
    Column("answer_degree", "int64", "Neighbours of the answer in the graph; 0 where it is no node."),
)
NODES, DEGREE = 4, 20  # more nodes or neighbours than these raise the difficulty by one level
NEAR = 4  # candidates for wrong options, those nearest in degree, as a multiple of the number of options
# Words of a question that refer to a source, which its readers do not see.
SOURCES = re.compile(
    r"\b(?:(?:the|this) (?:above |given |provided )?"
    r"(?:text|passage|figure|table|context|graph|excerpt|document|paper|article|abstract|study)"
    r"(?! of)"
    r"|(?:as )?(?:shown|described|mentioned|listed) above|above information|fig(?:ure|s)?\.? [0-9]+)\b"
)


def shared_names(names: Iterable[str]) -> frozenset[str]:
    """Names of more than one node, which make a question ambiguous."""
    return frozenset(name for name, times in Counter(names).items() if times > 1)


def askable(subject: str, answers: Iterable[str], shared: Collection[str]) -> bool:
    """Whether a question may use the name: it belongs to one node only, and no answer has the same name."""
    return subject not in shared and plain(subject) not in map(plain, answers)


def content_id(kind: str, *content: Any) -> str:
    """An id that depends on the kind and the content alone."""
    return f"{kind}-{short_digest(json.dumps([kind, *content], ensure_ascii=False)).hex()}"


def place(seed: int, text: str) -> bytes:
    """Sort key of an item in the random order of `seed`."""
    return short_digest(f"{seed}/{text}")


def difficulty(steps: int, nodes: int, degree: int) -> dict[str, Any]:
    """The columns of DIFFICULTY: the level is the number of inference steps, plus 1 for many nodes, plus 1 for an
    answer of high degree; level 1 is easy, 2 and 3 are medium, 4 and more are hard.
    """
    points = steps + (nodes > NODES) + (degree > DEGREE)
    level = "easy" if points <= 1 else "medium" if points <= 3 else "hard"
    return {"difficulty": level, "inference_steps": steps, "graph_nodes_used": nodes, "answer_degree": degree}


def answer_fields(answers: Sequence[str]) -> dict[str, Any]:
    """The initial fields of an item with known answers."""
    return {"answer": "; ".join(answers), "answers": list(answers)}


def in_turn(shares: list[Iterator[T]], number: int) -> Iterator[T]:
    """Take an item from each group in turn, up to `number` items."""
    while shares and number > 0:
        for share in list(shares):
            item = next(share, None)
            if item is None:
                shares.remove(share)
            elif number > 0:
                number -= 1
                yield item


def own_words(text: str) -> str | None:
    """The objection to a text that mentions its source; None if there is none."""
    return "speaks of its source" if SOURCES.search(plain(text)) else None


def wording(
    question: str, subjects: Sequence[str], hidden: Sequence[str], between: Sequence[str] = ()
) -> str | None:
    """The objection to a question, which must name all of `subjects` but neither the answers (`hidden`) nor the
    nodes `between`; None if there is none.
    """
    present = set(named(question, [*subjects, *hidden, *between]))
    number, end = len(subjects), len(subjects) + len(hidden)
    if not question.rstrip().endswith("?"):
        return "is no question"
    if not present >= set(range(number)):
        return "does not name what is given"
    if not present.isdisjoint(range(number, end)):
        return "gives the answer away"
    if max(present, default=-1) >= end:
        return "names what lies between"
    return own_words(question)


def gathered(anchors: Any, settings: Any, seed: int) -> Drawn:
    """The anchors of a kind in seeded order, without repetitions, at most `number`, with counts by group.

    An anchor without an id gets the digest of its content. Raises TypeError for an object that is no Anchor.
    """
    every: dict[str, Anchor] = {}
    for anchor in anchors:
        if not isinstance(anchor, Anchor):
            raise TypeError(f"draw() gave {anchor!r:.80}; yield Anchor(...), or return Drawn(...)")
        row = anchor.to_dict()
        content = [row[key] for key in ("group", "nodes", "relations", "data")]
        named = anchor if anchor.id else replace(anchor, id=content_id(anchor.kind, *content))
        every.setdefault(named.id, named)
    ordered = sorted(every.values(), key=lambda anchor: place(seed, anchor.id))
    return Drawn(ordered[: getattr(settings, "number", None)], Counter(a.group for a in ordered))


class Distractors:
    """Draws wrong options from the graph on which answers are computed.

    They are nodes of the answer's type and of similar degree that are no neighbours of the subject. Neighbours of the
    answer are excluded too, because a more general or more specific term is often correct as well.
    """

    def __init__(self, graph: KnowledgeGraph, shared_names: Collection[str]) -> None:
        self._graph, self._shared = graph, shared_names
        self._degrees = graph.degrees()
        self._of_type = lru_cache(maxsize=None)(self._sorted_by_degree)

    def draw(self, subjects: Sequence[int], answer: int, number: int, chance: random.Random) -> list[int]:
        """`number` nodes that are no answer for any subject; fewer if the graph has too few."""
        ends = (*subjects, answer)
        starts, neighbours = self._graph.csr()
        around = (neighbours[starts[node] : starts[node + 1]].tolist() for node in ends)
        excluded = {*ends, *chain.from_iterable(around)}
        used = {plain(str(self._graph.names[node])) for node in ends}
        near: list[int] = []
        for node in self._by_degree(answer):
            name = str(self._graph.names[node])
            if node in excluded or name in self._shared or plain(name) in used:
                continue
            used.add(plain(name))
            near.append(node)
            if len(near) == NEAR * number:
                break
        return chance.sample(near, min(number, len(near)))

    def _by_degree(self, answer: int) -> Iterator[int]:
        """All nodes of the answer's type by distance in degree from the answer; below before above."""
        nodes, degrees = self._of_type(int(self._graph.node_type[answer]))
        degree = self._degrees[answer]
        middle = int(np.searchsorted(degrees, degree))
        below = ((degree - degrees[k], 0, k) for k in reversed(range(middle)))
        above = ((degrees[k] - degree, 1, k) for k in range(middle, len(nodes)))
        return (int(nodes[k]) for _, _, k in merge(below, above))

    def _sorted_by_degree(self, kind: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        nodes = np.flatnonzero(self._graph.node_type == kind)
        order = np.argsort(self._degrees[nodes], kind="stable")
        return nodes[order], self._degrees[nodes][order]
